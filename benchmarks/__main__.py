"""`python -m benchmarks` runs every benchmark in a process of its own, so that none pays for another's imports."""

import subprocess
import sys

for name in ("parse", "apply", "startup", "check", "verify"):
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
