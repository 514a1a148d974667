#!/usr/bin/env bash
# Fuzzes the native parsers with address and undefined-behaviour sanitizers: fuzz.sh [TARGET...]
#   FUZZ_SECONDS=n for each target (default 60), or FUZZ_COUNT=n inputs; FUZZ_SEED=n (default: random)
# Starts with the inputs in tests/fuzz/seeds/TARGET and tests/fuzz/crashers/TARGET; keeps crashing inputs in the latter.
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

# Compiles changed sources, or all of them if a header changed.
newest_header=$(ls -t native/*/*.hpp tests/fuzz/*.hpp tests/native/*.hpp | head -n 1)
core=() objects=()
for source in native/*/*.cpp; do
  core+=("$source") objects+=("$build/core-$(basename "$source" .cpp).o")
done
stale() {
  local source=$1 object=$build/$2.o; shift 2
  if [ ! -e "$object" ] || [ "$source" -nt "$object" ] || [ "$newest_header" -nt "$object" ]; then
    echo "$source $object $*"
  fi
}
{
  for source in "${core[@]}"; do stale "$source" "core-$(basename "$source" .cpp)" -fsanitize-coverage=trace-pc; done
  for target in "${targets[@]}"; do stale "tests/fuzz/$target.cpp" "$target" -fsanitize-coverage=trace-pc; done
  stale tests/fuzz/driver.cpp driver
} | xargs -r -P "$(nproc)" -L 1 sh -c 'source=$1 object=$2; shift 2; exec c++ '"${flags[*]}"' "$@" -c -o "$object" "$source"' compile

# Limits the memory of an input.
export ASAN_OPTIONS=max_allocation_size_mb=2048:hard_rss_limit_mb=2048
failed=0
for target in "${targets[@]}"; do
  program=$build/$target crashers=tests/fuzz/crashers/$target
  c++ "${flags[@]}" -o "$program" "$program.o" $build/driver.o "${objects[@]}" -lz
  mapfile -t kept < <(find -H "$crashers" "tests/fuzz/seeds/$target" -type f 2>/dev/null | sort)
  amount=${count:+${count}x}
  echo "fuzz: $target, seed $seed, ${#kept[@]} kept inputs, ${amount:-$duration s}"
  if ! "$program" "$build/$target.crash" "${amount:-$duration}" "$seed" "${kept[@]}"; then
    mkdir -p "$crashers"
    # The file has a u64 size, then the input.
    size=$(od -An -t u8 -N 8 "$build/$target.crash" | tr -d ' ')
    head -c $((8 + size)) "$build/$target.crash" | tail -c +9 >"$build/$target.input"
    name=$crashers/$(sha256sum "$build/$target.input" | cut -c 1-16)
    mv "$build/$target.input" "$name"
    echo "fuzz: $target crashed; the input is $name" >&2
    failed=1
  fi
done
exit $failed
