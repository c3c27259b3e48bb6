"""Lets these tests use the tiny twins and the right plans of the simulator's tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "simulate"))
