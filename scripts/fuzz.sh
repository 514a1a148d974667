#!/usr/bin/env bash
# Fuzzes the native parsers with address and undefined-behaviour sanitizers: fuzz.sh [TARGET...]
#   FUZZ_SECONDS=n for each target (default 60), or FUZZ_COUNT=n inputs; FUZZ_SEED=n (default: random)
# Starts with the inputs in tests/fuzz/seeds/TARGET and tests/fuzz/crashers/TARGET, and keeps crashing inputs in the
# latter. A file in place of such a folder names the target whose folder it is. Goes on behind a target that crashes or
# does not compile, and fails at the end.
set -euo pipefail
duration=${FUZZ_SECONDS:-60} count=${FUZZ_COUNT:-} seed=${FUZZ_SEED:-$RANDOM$RANDOM}
cd "$(dirname "$0")/.."

build=build/fuzz
# Code has fixed addresses, which tell one edge from another: a seed repeats a run.
flags=(-std=c++17 -O1 -g -fno-pie -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
  -I native)
mkdir -p $build

targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  for source in tests/fuzz/*.cpp; do
    [ "$source" = tests/fuzz/driver.cpp ] || targets+=("$(basename "$source" .cpp)")
  done
fi

# Compiles changed sources, or all of them if a header changed. What does not compile has no object.
newest_header=
for header in native/*/*.hpp tests/fuzz/*.hpp tests/native/*.hpp; do
  if [ -z "$newest_header" ] || [ "$header" -nt "$newest_header" ]; then newest_header=$header; fi
done
stale() {
  local source=$1 object=$build/$2.o; shift 2
  if [ ! -e "$object" ] || [ "$source" -nt "$object" ] || [ "$newest_header" -nt "$object" ]; then
    echo "$source $object $*"
  fi
}
compile() {
  xargs -r -P "$(nproc)" -L 1 sh -c 'source=$1 object=$2; shift 2; rm -f "$object"
    exec c++ '"${flags[*]}"' "$@" -c -o "$object" "$source"' compile
}
objects=()
for source in native/*/*.cpp; do objects+=("$build/core-$(basename "$source" .cpp).o"); done
if ! {
  for source in native/*/*.cpp; do stale "$source" "core-$(basename "$source" .cpp)" -fsanitize-coverage=trace-pc; done
  stale tests/fuzz/driver.cpp driver
} | compile; then
  echo "fuzz: the core does not compile" >&2
  exit 1
fi
for target in "${targets[@]}"; do stale "tests/fuzz/$target.cpp" "$target" -fsanitize-coverage=trace-pc; done |
  compile || true  # each target says so below

folder() {
  local folder=tests/fuzz/$1/$target
  if [ -f "$folder" ]; then folder=tests/fuzz/$1/$(cat "$folder"); fi
  echo "$folder"
}

# Keeps the input under way, which the driver has left in $crash: a u64 size, then the input.
keep() {
  local size name
  size=$(od -An -t u8 -N 8 "$crash" | tr -d ' ')
  head -c $((8 + size)) "$crash" | tail -c +9 >"$build/$target.input"
  name=$crashers/$(sha256sum "$build/$target.input" | cut -c 1-16)
  mkdir -p "$crashers"
  mv "$build/$target.input" "$name"
  echo "fuzz: $target crashed; the input is $name"
}

# Fails, and says why, if the target does.
run() {
  local program=$build/$target crash=$build/$target.crash crashers
  crashers=$(folder crashers)
  rm -f "$crash"
  if ! [ -e "$program.o" ] ||
    ! c++ "${flags[@]}" -no-pie -o "$program" "$program.o" $build/driver.o "${objects[@]}" -lz; then
    echo "fuzz: $target does not compile"
    return 1
  fi
  mapfile -t kept < <(find "$crashers" "$(folder seeds)" -type f 2>/dev/null | sort)
  amount=${count:+${count}x}
  echo "fuzz: $target, seed $seed, ${#kept[@]} kept inputs, ${amount:-$duration s}"
  "$program" "$crash" "${amount:-$duration}" "$seed" "${kept[@]}" && return
  if [ -s "$crash" ]; then keep; else echo "fuzz: $target did not begin"; fi
  return 1
}

FUZZ_FOLDER=$(mktemp -d /dev/shm/fuzz-XXXXXX)
export FUZZ_FOLDER
trap 'rm -rf "$FUZZ_FOLDER"' EXIT
# Limits the memory of an input.
export ASAN_OPTIONS=max_allocation_size_mb=2048:hard_rss_limit_mb=2048
# One target for each processor; each prints what it has to say at once, in the end.
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
  {
    rm -f "$build/$target.failed"
    if run >"$build/$target.log" 2>&1; then
      cat "$build/$target.log"
    else
      touch "$build/$target.failed"
      cat "$build/$target.log" >&2
    fi
  } &
done
wait
failed=()
for target in "${targets[@]}"; do [ ! -e "$build/$target.failed" ] || failed+=("$target"); done
if [ ${#failed[@]} != 0 ]; then
  echo "fuzz: failed: ${failed[*]}" >&2
  exit 1
fi
