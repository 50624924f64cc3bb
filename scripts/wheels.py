#!/usr/bin/env python3
"""Fetches what Longshore takes from PyPI into .deps/: libraries out of wheels, one source archive.

Python is only the downloader here. Every download is pinned by version and SHA-256, which pip
verifies; files are unpacked under temporary names and renamed, and a stamp is written last, so an
interrupted call can simply be repeated.

usage: wheels.py cpu|cuda-build|cuda-run     cuda-build: to compile and link, cuda-run: also to run
       wheels.py parquet                     Arrow's libraries, which read Parquet and Arrow files
       wheels.py sentencepiece FOLDER        its source archive, into FOLDER
       wheels.py licences                    the licences of all wheels that are there, for packages of ours
"""

import fnmatch
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass

DEPS = pathlib.Path(__file__).resolve().parent.parent / ".deps"
WHEELS = DEPS / "wheels"


@dataclass
class Wheel:
    name: str
    version: str
    sha256: str
    takes: list  # patterns of the members to unpack
    provides: str  # the name of the file it is fetched for
    level: str = "cuda-run"  # the least demanding build that needs it


LEVELS = ["cpu", "cuda-build", "cuda-run"]
TORCH = ("torch", "2.11.0", "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a")
CUBLAS = ("nvidia-cublas", "13.1.0.3",
          "ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171")
CUSPARSE = ("nvidia-cusparse", "12.6.3.3",
            "2b3c89c88d01ee0e477cb7f82ef60a11a4bcd57b6b87c33f789350b59759360b")
CUDNN = ("nvidia-cudnn-cu13", "9.19.0.56",
         "d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf")
CU13 = "nvidia/cu13/"
LIBRARIES = [CU13 + "lib/*.so*"]
HEADERS = [CU13 + "include/*"]

# The versions are those that torch 2.11.0 (built for CUDA 13.0.2) asks for.
TABLE = [
    Wheel(*TORCH, ["torch/include/*", "torch/lib/libc10.so", "torch/lib/libtorch_cpu.so",
                   "torch/lib/libgomp.so.1"], "libtorch_cpu.so", "cpu"),
    Wheel(*TORCH, ["torch/lib/libc10_cuda.so", "torch/lib/libtorch_cuda.so",
                   "torch/lib/libtorch_nvshmem.so", "torch/lib/libcaffe2_nvrtc.so"],
          "libtorch_cuda.so", "cuda-build"),
    Wheel("nvidia-cuda-runtime", "13.0.96",
          "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
          [CU13 + "lib/*", CU13 + "include/*"], "libcudart.so.13", "cpu"),
    Wheel("nvidia-cuda-cupti", "13.0.85",
          "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
          [CU13 + "lib/libcupti.so.13"], "libcupti.so.13", "cpu"),
    Wheel("nvidia-cuda-nvcc", "13.0.88",
          "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03",
          [CU13 + "*"], "nvcc", "cuda-build"),
    Wheel("nvidia-cuda-crt", "13.0.88",
          "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4",
          [CU13 + "*"], "nvcc", "cuda-build"),
    Wheel("nvidia-nvvm", "13.0.88",
          "c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0",
          [CU13 + "*"], "nvcc", "cuda-build"),
    Wheel("nvidia-cuda-cccl", "13.0.85",
          "e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649",
          [CU13 + "*"], "nvcc", "cuda-build"),
    # ATen's CUDA context includes the headers of these three.
    Wheel(*CUBLAS, HEADERS, "cublas_v2.h", "cuda-build"),
    Wheel(*CUSPARSE, HEADERS, "cusparse.h", "cuda-build"),
    Wheel("nvidia-cusolver", "12.0.4.66",
          "0a759da5dea5c0ea10fd307de75cdeb59e7ea4fcb8add0924859b944babf1112",
          HEADERS, "cusolverDn.h", "cuda-build"),
    Wheel(*CUDNN, ["nvidia/cudnn/include/*"], "cudnn.h", "cuda-build"),
    # No library of its own: headers in front of whatever cuDNN is loaded.
    Wheel("nvidia-cudnn-frontend", "1.32.0",
          "c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0",
          ["include/*"], "cudnn_frontend.h", "cuda-build"),
    Wheel(*CUBLAS, LIBRARIES, "libcublasLt.so.13"),
    Wheel(*CUSPARSE, LIBRARIES, "libcusparse.so.12"),
    Wheel(*CUDNN, ["nvidia/cudnn/lib/*.so*"], "libcudnn.so.9"),
    Wheel("nvidia-cufft", "12.0.0.61",
          "6c44f692dce8fd5ffd3e3df134b6cdb9c2f72d99cf40b62c32dde45eea9ddad3",
          LIBRARIES, "libcufft.so.12"),
    Wheel("nvidia-cufile", "1.15.1.6",
          "08a3ecefae5a01c7f5117351c64f17c7c62efa5fffdbe24fc7d298da19cd0b44",
          LIBRARIES, "libcufile.so.0"),
    Wheel("nvidia-curand", "10.4.0.35",
          "1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc",
          LIBRARIES, "libcurand.so.10"),
    Wheel("nvidia-cusparselt-cu13", "0.8.0",
          "25e30a8a7323935d4ad0340b95a0b69926eee755767e8e0b1cf8dd85b197d3fd",
          ["nvidia/cusparselt/lib/*.so*"], "libcusparseLt.so.0"),
    Wheel("nvidia-nccl-cu13", "2.28.9",
          "e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42",
          ["nvidia/nccl/lib/*.so*", "nvidia/nccl/include/*"], "nccl.h", "cuda-build"),
    Wheel("nvidia-nvshmem-cu13", "3.4.5",
          "290f0a2ee94c9f3687a02502f3b9299a9f9fe826e6d0287ee18482e78d495b80",
          ["nvidia/nvshmem/lib/libnvshmem_host.so*"], "libnvshmem_host.so.3"),
    Wheel("nvidia-nvjitlink", "13.0.88",
          "13a74f429e23b921c1109976abefacc69835f2f433ebd323d3946e11d804e47b",
          LIBRARIES, "libnvJitLink.so.13"),
    Wheel("nvidia-cuda-nvrtc", "13.0.88",
          "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
          LIBRARIES, "libnvrtc.so.13"),
]

# Of all wheels.
LICENCES = ["*.dist-info/licenses/*", "*.dist-info/LICEN[CS]E*", "*.dist-info/License*", "*.dist-info/NOTICE*"]

# Of no level: for those who ask.
PYARROW = Wheel("pyarrow", "26.0.1",
                "39cb0f2418282c24bea6ceda77b03e5a8f0a5766b63a8bf194d4e2a2c423548c",
                ["pyarrow/include/*", "pyarrow/libarrow.so.2600", "pyarrow/libparquet.so.2600",
                 "pyarrow-*.dist-info/licenses/*"],
                "libparquet.so.2600", "parquet")

SENTENCEPIECE = ("sentencepiece", "0.2.1",
                 "8138cec27c2f2282f4a34d9a016e3374cd40e5c6e9cb335063db66a0a3b71fad")


def say(text):
    print(f"set-up: {text}", flush=True)


def toolkits():
    """Those of CUDA 13."""
    found = [os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    nvcc = shutil.which("nvcc")
    if nvcc:
        found.append(pathlib.Path(nvcc).resolve().parent.parent)
    return [pathlib.Path(folder) for folder in found if folder and is_nvcc_13(pathlib.Path(folder) / "bin" / "nvcc")]


def is_on_this_machine(file):
    """Whether a CUDA toolkit provides a file, or the loader's cache a library."""
    if file == "nvcc":
        return bool(toolkits())
    folders = ["include", "lib64", "lib", "extras/CUPTI/lib64"]
    if any((toolkit / folder / file).exists() for toolkit in toolkits() for folder in folders):
        return True
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    return f"\t{file} " in cache


@functools.lru_cache(maxsize=None)
def is_nvcc_13(nvcc):
    if not nvcc.exists():
        return False
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
    return "release 13." in version


def stamp_of(wheel):
    key = hashlib.sha256(repr((wheel.sha256, wheel.takes)).encode()).hexdigest()
    return WHEELS / ".stamps" / f"{wheel.name}-{wheel.version}-{key[:12]}"


def is_needed(wheel, level):
    if LEVELS.index(wheel.level) > LEVELS.index(level):
        return False
    if stamp_of(wheel).exists():
        return False
    if wheel.name == "torch":
        return not os.environ.get("LONGSHORE_TORCH_DIR")
    if wheel.level == "cpu" and level == "cpu" and os.environ.get("LONGSHORE_TORCH_DIR"):
        return False  # whoever brings a LibTorch brings what it loads
    # A compiler out of a wheel wants the runtime's headers and libraries beside it.
    if wheel.name == "nvidia-cuda-runtime" and level != "cpu" and not is_on_this_machine("nvcc"):
        return True
    return not is_on_this_machine(wheel.provides)


def pip_download(name, version, sha256, folder, options):
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
    # No cache: pip would keep half a gigabyte twice, and hold it in memory to look it up.
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download",
               "--no-deps", "--no-cache-dir", "--require-hashes", "--dest", folder / "files",
               *options, "--requirement", requirement]
    if subprocess.run(command, env=dict(os.environ, PIP_REQUIRE_VIRTUALENV="0")).returncode != 0:
        sys.exit(f"set-up: pip could not download {name} {version}; its message is above")
    return next((folder / "files").iterdir())


def unpack(archive, takes):
    for member in archive.infolist():
        if member.is_dir() or not any(fnmatch.fnmatchcase(member.filename, t) for t in takes):
            continue
        target = WHEELS / member.filename
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(target.name + ".part")
        with archive.open(member) as source, open(temporary, "wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        temporary.chmod(0o755 if member.external_attr >> 16 & 0o100 else 0o644)
        temporary.rename(target)


def fetch_wheels(needed, *, licences_alone=False):
    for first in needed:
        same = [wheel for wheel in needed if wheel.sha256 == first.sha256]
        if same[0] is not first:
            continue  # came with the first
        options = ["--only-binary=:all:"]
        # Any one serves: nothing of them that depends on Python is used.
        if first.name in ("torch", "nvidia-cudnn-frontend", "pyarrow"):
            options += ["--python-version=3.11", "--implementation=cp", "--abi=cp311",
                        "--platform=manylinux_2_28_x86_64"]
        say(f"{first.name} {first.version} from PyPI")
        with tempfile.TemporaryDirectory(dir=DEPS, prefix="download-") as folder:
            path = pip_download(first.name, first.version, first.sha256, pathlib.Path(folder),
                                options)
            # Those of another version lose what they have in common with this one.
            for stamp in (WHEELS / ".stamps").glob(f"{first.name}-[0-9]*"):
                if stamp not in map(stamp_of, [*TABLE, PYARROW]):
                    stamp.unlink()
            with zipfile.ZipFile(path) as archive:
                for wheel in same:
                    unpack(archive, [] if licences_alone else wheel.takes)
                unpack(archive, LICENCES)
        lib64 = WHEELS / CU13 / "lib64"  # where nvcc looks
        if lib64.parent.exists() and not lib64.exists():
            lib64.symlink_to("lib")
        for wheel in same:
            stamp_of(wheel).parent.mkdir(parents=True, exist_ok=True)
            stamp_of(wheel).touch()


def fetch_licences():
    """Those of wheels that were fetched before their licences were kept."""
    def has_licence(wheel):
        return any((WHEELS / f"{wheel.name.replace('-', '_')}-{wheel.version}.dist-info").rglob("*"))

    fetch_wheels([wheel for wheel in [*TABLE, PYARROW] if stamp_of(wheel).exists() and not has_licence(wheel)],
                 licences_alone=True)


def fetch_sentencepiece(folder):
    with tempfile.TemporaryDirectory(dir=DEPS, prefix="download-") as temporary:
        path = pip_download(*SENTENCEPIECE, pathlib.Path(temporary),
                            ["--no-binary=sentencepiece", "--no-build-isolation"])
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-xzf", path, "-C", folder, "--strip-components=1"], check=True)


def main():
    DEPS.mkdir(exist_ok=True)
    if len(sys.argv) == 2 and sys.argv[1] in LEVELS:
        fetch_wheels([wheel for wheel in TABLE if is_needed(wheel, sys.argv[1])])
    elif sys.argv[1:] == ["parquet"]:
        fetch_wheels([] if stamp_of(PYARROW).exists() else [PYARROW])
    elif sys.argv[1:] == ["licences"]:
        fetch_licences()
    elif len(sys.argv) == 3 and sys.argv[1] == "sentencepiece":
        fetch_sentencepiece(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(__doc__)


try:
    main()
except KeyboardInterrupt:
    sys.exit(130)
