"""Longshore's programs: python -m longshore PROGRAM [ARGUMENT...]."""
