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
flags=(-std=c++17 -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -I native)
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

failed=()
fail() {
  echo "fuzz: $target $1" >&2
  failed+=("$target")
}

# Keeps the input under way, which the driver has left in $crash: a u64 size, then the input.
keep() {
  local size name
  size=$(od -An -t u8 -N 8 "$crash" | tr -d ' ')
  head -c $((8 + size)) "$crash" | tail -c +9 >"$build/$target.input"
  name=$crashers/$(sha256sum "$build/$target.input" | cut -c 1-16)
  mkdir -p "$crashers"
  mv "$build/$target.input" "$name"
  fail "crashed; the input is $name"
}

# Limits the memory of an input.
export ASAN_OPTIONS=max_allocation_size_mb=2048:hard_rss_limit_mb=2048
for target in "${targets[@]}"; do
  program=$build/$target crash=$build/$target.crash crashers=$(folder crashers)
  rm -f "$crash"
  if ! [ -e "$program.o" ] || ! c++ "${flags[@]}" -o "$program" "$program.o" $build/driver.o "${objects[@]}" -lz; then
    fail "does not compile"
    continue
  fi
  mapfile -t kept < <(find "$crashers" "$(folder seeds)" -type f 2>/dev/null | sort)
  amount=${count:+${count}x}
  echo "fuzz: $target, seed $seed, ${#kept[@]} kept inputs, ${amount:-$duration s}"
  if ! "$program" "$crash" "${amount:-$duration}" "$seed" "${kept[@]}"; then
    if [ -s "$crash" ]; then keep; else fail "did not begin"; fi
  fi
done
if [ ${#failed[@]} != 0 ]; then
  echo "fuzz: failed: ${failed[*]}" >&2
  exit 1
fi
