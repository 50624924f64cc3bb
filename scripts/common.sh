# Sourced by the other scripts: where things are, and what to build on this machine.

caller_folder=$PWD
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# A path as the caller means it.
absolute() { (cd "$caller_folder" && realpath -m "$1"); }

# Prints the comment at the head of the calling script. usage STATUS
usage() {
  sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"
  exit "$1"
}

nvidia_driver_seen() {
  [ -e /dev/nvidiactl ] || /sbin/ldconfig -p | grep -q 'libcuda\.so\.1 ' ||
    { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }
}

# What is built into build/: the CUDA backend where there is a driver to run it.
default_preset() {
  if nvidia_driver_seen &&
    [ -z "${LONGSHORE_TORCH_DIR:-}" -o -e "${LONGSHORE_TORCH_DIR:-}/lib/libtorch_cuda.so" ]; then
    echo cuda
  else
    echo release
  fi
}

# run_logged LOG WHAT COMMAND...: the output goes to LOG, and its end is shown when it fails.
run_logged() {
  local log=$1 what=$2
  shift 2
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1; then
    echo "$what failed. The end of $log:" >&2
    tail -n 40 "$log" >&2
    exit 1
  fi
}

# build PRESET FOLDER [TARGET...]: configures and builds quietly.
build() {
  local preset=$1 folder=$2
  shift 2
  local start=$SECONDS
  run_logged "$folder/configure.log" "Configuring" cmake --preset "$preset" -B "$folder"
  if cmake --build "$folder" -- -n "$@" | grep -q 'no work to do'; then return; fi
  echo "build: ${*:-everything} into $folder (log: $folder/build.log)"
  run_logged "$folder/build.log" "Building" cmake --build "$folder" -- "$@"
  echo "build: done in $((SECONDS - start)) s"
}
