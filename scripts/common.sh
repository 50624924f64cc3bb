# Sourced by the other scripts: where things are, and what to build on this machine.

caller_folder=$PWD
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." >/dev/null && pwd) # which CDPATH would have cd print
cd "$root"
case $root in
  *[[:space:]]*) echo "found a space in $root, expected a path without one" >&2 && exit 1 ;;
esac

# A path as the caller means it.
absolute() { (cd "$caller_folder" && realpath -m "$1"); }

if [ -n "${LONGSHORE_TORCH_DIR:-}" ]; then
  LONGSHORE_TORCH_DIR=$(absolute "$LONGSHORE_TORCH_DIR")
  export LONGSHORE_TORCH_DIR
fi

# Prints the comment at the head of the calling script. usage STATUS
usage() {
  (cd "$caller_folder" && sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0")
  exit "$1"
}

nvidia_driver_seen() {
  # Not grep -q: it may leave before ldconfig has written all, which then counts as a failure.
  [ -e /dev/nvidiactl ] || /sbin/ldconfig -p | grep 'libcuda\.so\.1 ' >/dev/null ||
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

# show_progress LOG: until it is killed, or this script ends, says how far Ninja's [done/all] in LOG
# has come; every two seconds in place on a terminal, every half minute on lines of their own elsewhere.
show_progress() {
  local log=$1 start=$SECONDS period=30 begin='' end=$'\n' said='' first='' next left text
  if [ -t 2 ]; then period=2 begin=$'\r\e[K' end=''; fi
  next=$((start + period))
  while kill -0 $$ 2>/dev/null; do
    sleep 0.5
    [ $SECONDS -ge $next ] || continue
    next=$((SECONDS + period))
    [[ $(tail -n 1 "$log" 2>/dev/null) =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    local done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
    first=${first:-$done}
    text="$done/$all"
    # The first steps are quicker or slower than most: an estimate needs some behind it.
    if [ $((done - first)) -ge 10 ]; then
      left=$(((SECONDS - start) * (all - done) / done))
      if [ $left -ge 60 ]; then text+=", $(((left + 30) / 60)) min left"; else text+=", $left s left"; fi
    fi
    if [ "$text" != "$said" ]; then printf '%s%s%s' "$begin" "$text" "$end" >&2; fi
    said=$text
  done
}

# run_logged LOG WHAT COMMAND...: the output goes to LOG, and its end is shown when it fails.
run_logged() {
  local log=$1 what=$2
  shift 2
  mkdir -p "$(dirname "$log")"
  : >"$log"
  show_progress "$log" &
  local watcher=$! status=0
  "$@" >"$log" 2>&1 || status=$?
  kill $watcher
  wait $watcher 2>/dev/null || true
  if [ -t 2 ]; then printf '\r\e[K' >&2; fi
  if [ $status != 0 ]; then
    echo "$what failed. The end of $log:" >&2
    tail -n 40 "$log" >&2
    exit 1
  fi
}

# same_tar FOLDER NAME SECONDS [OPTION...]: writes an archive of FOLDER/NAME to the standard output, the same bytes for the
# same names, contents and permissions to run: everything in it is of the second SECONDS, of nobody's and in order.
same_tar() {
  local folder=$1 name=$2 seconds=$3
  shift 3
  LC_ALL=C tar -c "$@" --format=gnu --sort=name --mtime="@$seconds" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX -C "$folder" "$name"
}

# build PRESET FOLDER [TARGET...]: configures and builds quietly, one call at a time.
build() {
  local preset=$1 folder=$2
  shift 2
  mkdir -p "$folder"
  exec 8>"$folder/lock"
  if ! flock -n 8; then
    echo "build: waiting for another build into $folder"
    flock 8
  fi
  local start=$SECONDS fresh=()
  # A checkout that has moved: CMake refuses what it wrote elsewhere.
  if [ -f "$folder/CMakeCache.txt" ] &&
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$folder/CMakeCache.txt"; then
    fresh=(--fresh)
  fi
  run_logged "$folder/configure.log" "Configuring" cmake --preset "$preset" -B "$folder" "${fresh[@]}" \
    -DLONGSHORE_TORCH_DIR="${LONGSHORE_TORCH_DIR:-$root/.deps/wheels/torch}"
  if ! cmake --build "$folder" -- -n "$@" | grep 'no work to do' >/dev/null; then
    echo "build: ${*:-everything} into $folder (log: $folder/build.log)"
    run_logged "$folder/build.log" "Building" cmake --build "$folder" -- "$@"
    echo "build: done in $((SECONDS - start)) s"
  fi
  exec 8>&- # or what is started next would hold it
}
