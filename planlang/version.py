"""The version, read by the build and written into what the compiler emits."""

__version__ = "0.1.0"
