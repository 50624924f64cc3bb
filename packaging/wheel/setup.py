"""Packs what `cmake --install` gives of build/, without LibTorch, which is the torch wheel's."""

import os
import pathlib
import platform
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build"


def beside_python(folder, pattern):
    """For setup(): files of the build that belong into PREFIX/share, and not into the package alone."""
    found = sorted((BUILD / "share" / folder).glob(pattern))
    if not found:
        raise SystemExit(f"{BUILD}/share/{folder}: found no {pattern}, expected what scripts/package builds")
    return "share/" + folder, [os.path.relpath(path, pathlib.Path(__file__).parent) for path in found]


def found_in(path, pattern):
    match = re.search(pattern, (ROOT / path).read_text())
    if not match:
        raise SystemExit(f"{path}: found no {pattern}")
    return match.group(1)


class WithPrograms(Distribution):
    def has_ext_modules(self):  # of which none is Python's
        return True


class InstallPrograms(build_py):
    def run(self):
        shutil.rmtree(self.build_lib, ignore_errors=True)  # of an earlier call
        super().run()
        subprocess.run(["cmake", "--install", BUILD, "--component", "longshore", "--strip", "--prefix",
                        pathlib.Path(self.build_lib).resolve() / "longshore"], check=True, stdout=subprocess.DEVNULL)


class ForThisSystem(bdist_wheel):
    """Any Python 3, and a C runtime that is new enough."""

    def get_tag(self):
        files = [*(BUILD / "bin").glob("t*"), *(BUILD / "lib").glob("*.so")]
        glibc = subprocess.run([ROOT / "scripts/oldest_glibc", *files], check=True, stdout=subprocess.PIPE,
                               text=True).stdout.strip().replace(".", "_")
        return "py3", "none", f"manylinux_{glibc}_{platform.machine()}"


setup(
    name="longshore",
    version=found_in("CMakeLists.txt", r"project\(longshore VERSION ([0-9.]+)"),
    description="LLM trainer in C++20 on LibTorch, for models that barely fit",
    license="Apache-2.0",
    python_requires=">=3.10",
    install_requires=["torch==" + found_in("scripts/wheels.py", r'TORCH = \("torch", "([0-9.]+)"')],
    packages=["longshore"],
    data_files=[beside_python("man/man1", "longshore*.1"),
                beside_python("bash-completion/completions", "longshore"),
                beside_python("zsh/site-functions", "_longshore")],
    entry_points={"console_scripts": ["longshore = longshore.__main__:main"]},
    distclass=WithPrograms,
    cmdclass={"build_py": InstallPrograms, "bdist_wheel": ForThisSystem},
)
