# The test suites; sourced by tools/dev.
#
# A suite is a function that calls `check`, `tally` or `count`.  Its output
# goes to build/log/<suite>.log and is shown when something failed.  To add
# one, write the function and a line in the table.
#
#   name | when | function and its arguments
#
# when: quick (also in full and long), full (also in long), long.

suites='
unit             | quick | suite_unit build release
lit              | quick | suite_lit build release
conformance-mini | quick | suite_mini build release
examples         | quick | suite_examples build release
style            | quick | tally style test/style
conformance-ref  | full  | suite_models build release --executors ref
conformance-host | full  | suite_models build release --executors host
conformance      | full  | suite_models build release
guard-pages      | full  | suite_guard_pages
roundtrip        | full  | suite_roundtrip
headers          | full  | suite_headers
tidy             | full  | suite_tidy
package          | full  | suite_package
clang            | full  | suite_unit build-clang clang
asan-planted     | full  | suite_planted
asan-unit        | full  | suite_unit build-asan asan
asan-lit         | full  | suite_lit build-asan asan
asan-mini        | full  | suite_mini build-asan asan
asan-examples    | full  | suite_examples build-asan asan
hostile          | full  | suite_hostile build release
asan-hostile     | full  | suite_hostile build-asan asan
threads          | full  | suite_threads
fuzz             | full  | suite_fuzz
ops-ref          | long  | suite_ops build release --executors ref
ops-host         | long  | suite_ops build release --executors host
asan-conformance | long  | suite_models build-asan asan --executors host
aarch64          | full  | suite_aarch64
'

# The models whose every recorded case must pass.
model_names='llama* gpt2 qwen* bert mlp deep_elementwise gemma2 vit resnet18
hf_static_cache cache_inputs shared_weight called_twice nested_io symbolic cond
dropout_eval batchnorm_train'

conformance=${TH_CONFORMANCE:-$root/../shared/conformance}
export TH_CONFORMANCE=$conformance
log_folder=$root/build/log
passed=0
failed=0

# ---- counting --------------------------------------------------------------

count() {
  passed=$((passed + $1))
  failed=$((failed + $2))
}

# Runs a command; it passes when its exit status is 0.
check() {
  local label=$1
  shift
  if timeout 900 "$@" < /dev/null; then
    count 1 0
  else
    say "FAILED ($?): $label"
    count 0 1
  fi
}

# Passes when the command ends with the status given, for what must fail.
check_status() {
  local label=$1 want=$2 got
  shift 2
  timeout 900 "$@" < /dev/null
  got=$?
  if [ "$got" = "$want" ]; then
    count 1 0
  else
    say "FAILED: $label: exit status $got, not $want"
    count 0 1
  fi
}

# Runs a program that closes with `N passed, N failed` and adds its numbers.
# An ending without such a line, or in a signal, is a failure of its own.
tally() {
  local label=$1 out status line
  shift
  out=$(mktemp)
  timeout 900 "$@" > "$out" 2>&1 < /dev/null
  status=$?
  cat "$out"
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$out" | tail -n 1)
  rm -f "$out"
  set -- $line
  if [ $# -ge 4 ]; then
    count "$1" "$3"
    [ "$status" -eq 0 ] || [ "$3" -gt 0 ] || set --
    [ $# -eq 0 ] || [ "$(($1 + $3))" -gt 0 ] || set --
  fi
  if [ $# -lt 4 ]; then
    say "FAILED: $label: exit status $status, no or no sound closing line"
    count 0 1
  fi
}

# ---- builds ----------------------------------------------------------------

built=" "

# Builds a kind once in a session, remembering what did not build.
need() {
  case $built in
    *" $1:ok "*) return 0 ;;
    *" $1:bad "*) ;;
    *)
      if "build_$1"; then
        built="$built$1:ok "
        return 0
      fi
      built="$built$1:bad "
      ;;
  esac
  say "FAILED: the $1 build does not build"
  count 0 1
  return 1
}

build_asan() {
  build build-asan -DTH_SANITIZE=ON -DCMAKE_C_FLAGS_RELEASE="-O1 -g1"
}

build_tsan() {
  build build-tsan -DCMAKE_C_COMPILER=clang-22 -DTH_TSAN=ON -DTH_TESTS=ON \
    -DCMAKE_C_FLAGS_RELEASE="-O1 -g1" -- threads
}

build_clang() { build build-clang -DCMAKE_C_COMPILER=clang-22; }

build_fuzz() {
  build build-fuzz -DCMAKE_C_COMPILER=clang-22 -DTH_SANITIZE=ON -DTH_FUZZ=ON \
    -DCMAKE_C_FLAGS_RELEASE="-O1 -g1" -- fuzzers
}

# Sanitizers write their reports to files: Criterion runs each test in a child
# whose leak report would change no exit status.  The run time of gcc 12 takes
# some blocks of dynamic TLS for ones of glibc before 2.25 and reads their size
# where there is none (LLVM 17 and gcc 14 do not), so it is not to look.
report_folder=$root/build/log/reports
reported=99

sanitizer_start() {
  rm -rf "$report_folder"
  mkdir -p "$report_folder"
  local common="log_path=$report_folder/report"
  common="$common:exitcode=$reported:intercept_tls_get_addr=0"
  export ASAN_OPTIONS="$common:detect_leaks=1:detect_stack_use_after_return=1"
  export UBSAN_OPTIONS="$common:print_stacktrace=1"
}

# Each report is one failure, but for blocks that Criterion itself took and
# left (its own call is the nearest frame of each).
sanitizer_end() {
  local report
  unset ASAN_OPTIONS UBSAN_OPTIONS
  for report in "$report_folder"/report*; do
    [ -e "$report" ] || continue
    if grep -q 'LeakSanitizer: detected' "$report" &&
      ! grep ' #1 ' "$report" | grep -qv libcriterion; then
      continue
    fi
    head -n 60 "$report"
    say "FAILED: a sanitizer reported"
    count 0 1
  done
}

# ---- suites ----------------------------------------------------------------

# Criterion closes with `Tested: N | Passing: N | Failing: N | Crashing: N`.
criterion() {
  local out status line
  out=$(mktemp)
  timeout 1800 "$@" > "$out" 2>&1 < /dev/null
  status=$?
  cat "$out"
  line=$(sed -n 's/.*Passing: \([0-9]*\) | Failing: \([0-9]*\) | Crashing: \([0-9]*\).*/\1 \2 \3/p' \
    "$out" | tail -n 1)
  rm -f "$out"
  set -- $line
  if [ $# -eq 3 ] && [ "$(($1 + $2 + $3))" -gt 0 ]; then
    count "$1" "$(($2 + $3))"
    case $status in
      0 | "$reported") ;; # a report is counted by itself
      *) [ "$(($2 + $3))" -gt 0 ] || count 0 1 ;;
    esac
  else
    say "FAILED: no closing line, exit status $status"
    count 0 1
  fi
}

suite_unit() {
  local program
  need "$2" || return
  sanitizer_start
  for program in unit unit-llvm; do
    criterion "$1/bin/$program"
  done
  sanitizer_end
}

suite_lit() {
  local out
  need "$2" || return
  out=$(mktemp)
  sanitizer_start
  TH_BUILD=$root/$1 timeout 1800 lit-22 -v test > "$out" 2>&1 < /dev/null
  sanitizer_end
  cat "$out"
  lit_tally "$out"
  rm -f "$out"
}

lit_tally() {
  local line
  line=$(awk -F: '
    /^ *Passed *:/ || /^ *Expectedly Failed *:/ { p += $2; seen = 1 }
    /^ *(Failed|Timed Out|Unresolved|Unexpectedly Passed) *:/ {
      f += $2; seen = 1 }
    END { if (seen) print p + 0, f + 0 }' "$1")
  # shellcheck disable=SC2086
  count ${line:-0 1}
}

# The cases of the archives in the repository, with both executors.
suite_mini() {
  local archive executors
  need "$2" || return
  sanitizer_start
  for archive in test/conformance/*.safetensors; do
    for executors in ref host; do
      cases "$1" "${archive%.safetensors}" --executors "$executors"
    done
  done
  sanitizer_end
}

cases() {
  local bin=$1/bin stem=$2
  shift 2
  say "== $(basename "$stem") $*"
  tally "$stem $*" "$bin/thunder-run" "$stem.pt2" \
    --cases "$stem.safetensors" "$@"
}

# The full set lies beside the project; in CI it has to be there.
have_conformance() {
  local name
  if [ -d "$conformance/models" ]; then
    for name in $model_names; do
      compgen -G "$conformance/models/$name.pt2" > /dev/null && continue
      say "FAILED: no model is called $name"
      count 0 1
    done
    return 0
  fi
  say "SKIPPED: no conformance cases in $conformance"
  skipped=1
  [ "${CI:-}" != true ] || count 0 1
  return 1
}

models() {
  local name archive
  for name in $model_names; do
    for archive in "$conformance"/models/$name.pt2; do
      [ ! -f "$archive" ] || say "${archive%.pt2}"
    done
  done | sort -u
}

suite_models() {
  local folder=$1 stem
  need "$2" || return
  shift 2
  have_conformance || return
  sanitizer_start
  for stem in $(models); do
    cases "$folder" "$stem" "$@"
  done
  sanitizer_end
}

# Every operation's own archive.
suite_ops() {
  local folder=$1 archive
  need "$2" || return
  shift 2
  have_conformance || return
  for archive in "$conformance"/ops/*.pt2; do
    cases "$folder" "${archive%.pt2}" "$@"
  done
}

suite_guard_pages() {
  export TH_GUARD_PAGES=1
  suite_models build release --executors host
  suite_models build release
  unset TH_GUARD_PAGES
}

# Every trace of the pipeline is printed, read again and printed alike.
suite_roundtrip() {
  local stem
  need release || return
  have_conformance || return
  for stem in $(models); do
    check "roundtrip $(basename "$stem")" sh -c '"$@" > /dev/null' - \
      build/bin/thunder-opt "$stem.pt2" --passes=default --verify-each \
      --roundtrip-each
    roundtrip_final "$stem" ref
    roundtrip_final "$stem" host
    roundtrip_final "$stem" gemv,onednn,flash,host
  done
}

# The final trace of each program, printed and read back, passes the cases.
roundtrip_final() {
  local stem=$1 executor=$2 program
  for program in train_ir core dyn; do
    python3 -m zipfile -l "$stem.pt2" | grep -q "models/$program.json" || continue
    check "final trace $(basename "$stem") $program $executor" sh -c '
      build/bin/thunder-opt "$1.pt2" --model="$2" --passes=default \
        --executors="$3" > build/log/final.trace &&
      build/bin/thunder-run "$1.pt2" --model "$2" --cases "$1.safetensors" \
        --executors "$3" --trace build/log/final.trace' - \
      "$stem" "$program" "$executor"
  done
}

# The programs of examples/ run and succeed.
suite_examples() {
  local source
  need "$2" || return
  sanitizer_start
  for source in examples/*.c; do
    check "$source" "$1/examples/$(basename "$source" .c)"
  done
  sanitizer_end
}

# A planted leak and a planted overflow have to be found.
suite_planted() {
  local fault
  need asan || return
  for fault in leak overflow; do
    sanitizer_start
    build-asan/bin/planted --filter "planted/$fault"
    unset ASAN_OPTIONS UBSAN_OPTIONS
    case $fault in
      leak) check leak grep -rq 'detected memory leaks' "$report_folder" ;;
      *) check overflow grep -rq 'heap-buffer-overflow' "$report_folder" ;;
    esac
  done
  rm -rf "$report_folder"
}

# Broken files are refused in good order.
suite_hostile() {
  need "$2" || return
  sanitizer_start
  tally hostile test/hostile "$1/bin" 60
  sanitizer_end
}

# Plain programs under the thread sanitizer; a race is exit status 66.
suite_threads() {
  local source wanted archer=/usr/lib/llvm-22/lib/libarcher.so
  need tsan || return
  export TSAN_OPTIONS="ignore_noninstrumented_modules=1:exitcode=66"
  [ ! -e $archer ] || export OMP_TOOL_LIBRARIES=$archer
  for source in test/threads/*.c; do
    case $source in
      */planted_*) wanted=66 ;;
      *) wanted=0 ;;
    esac
    check_status "$source" $wanted \
      "build-tsan/threads/$(basename "$source" .c)"
  done
  unset TSAN_OPTIONS OMP_TOOL_LIBRARIES
}

# Public headers compile alone, as C17 and as C++17.
suite_headers() {
  local header flags="-Wall -Wextra -Wpedantic -Werror -fsyntax-only"
  for header in include/thunder/*.h; do
    # shellcheck disable=SC2086
    for compiler in "gcc -std=c17 -xc" "clang-22 -std=c17 -xc" \
      "g++ -std=c++17 -xc++" "clang++-22 -std=c++17 -xc++"; do
      check "$compiler $header" $compiler $flags -Iinclude \
        -include "$header" /dev/null
    done
  done
}

# Installs into a folder of its own and builds a consumer in every manner.
suite_package() {
  local prefix
  need release || return
  prefix=$(mktemp -d)
  check install cmake --install build --prefix "$prefix/usr"
  # Moved after installation: nothing may hold the first place.
  mv "$prefix/usr" "$prefix/moved"
  check consumers test/package/build "$prefix/moved" "$prefix/work"
  check exports test/package/exports "$prefix/moved/lib/libthunder.so" \
    "$prefix/moved/include/thunder"
  rm -rf "$prefix"
}

fuzz_one() {
  local name=$1 seconds=$2 work
  work=$root/build-fuzz/corpus/$name
  mkdir -p "$work" "test/fuzz/corpus/$name"
  timeout $((seconds + 120)) "build-fuzz/bin/${name}_fuzz" \
    -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -print_final_stats=1 \
    -artifact_prefix="build-fuzz/$name-" -verbosity=0 \
    "$work" "test/fuzz/corpus/$name" < /dev/null
}

suite_fuzz() {
  local file name seconds=10
  [ "${CI:-}" != true ] || seconds=60
  need fuzz || return
  for file in test/fuzz/*_fuzz.c; do
    name=$(basename "$file" _fuzz.c)
    say "== $name"
    if fuzz_one "$name" "$seconds"; then
      count 1 0
    else
      say "FAILED: $name"
      count 0 1
    fi
  done
}

# A file whose text and headers passed before is not checked again.
tidy_files() {
  local stamps=build/tidy headers
  mkdir -p "$stamps"
  headers=$({ git ls-files '*.h' '*.def' .clang-tidy | xargs cat
    cat .clang-tidy; } | sha256sum | cut -c 1-16)
  git ls-files 'lib/*.c' 'passes/*.c' 'lowering/*.c' 'tools/*.c' |
    xargs -r -P "$(nproc)" -n 1 test/tidy-one "$stamps" "$headers"
}

suite_tidy() {
  local out
  check configure cmake -S . -B build -G Ninja -DTH_WERROR=ON
  out=$(mktemp)
  tidy_files > "$out" 2>&1
  grep -v '^ok ' "$out"
  count "$(grep -c '^ok ' "$out")" "$(grep -c '^FAILED ' "$out")"
  rm -f "$out"
}

# Kernels generated for AArch64 run under an emulator.
suite_aarch64() {
  need release || return
  # shellcheck disable=SC2086
  install_packages $long_packages
  check aarch64-emit ninja -C build aarch64-emit
  tally aarch64 test/aarch64/run build/bin
}

# ---- running ---------------------------------------------------------------

list_suites() { say "$suites" | sed '/^$/d'; }

# Is a suite with this name and time wanted?
wanted() {
  local name=$1 when=$2 choice
  shift 2
  for choice in "${@:-full}"; do
    case $choice/$when in
      quick/quick | full/quick | full/full | long/*) return 0 ;;
    esac
    [ "$choice" != "$name" ] || return 0
  done
  return 1
}

run_suites() {
  local all_passed=0 all_failed=0 ran=0 name when function start log
  mkdir -p "$log_folder"
  for name in "$@"; do
    case $name in
      quick | full | long) ;;
      *) list_suites | grep -q "^$name " || die "no suite is named $name" ;;
    esac
  done
  TH_CACHE_DIR=$(mktemp -d)
  export TH_CACHE_DIR
  while IFS='|' read -r name when function <&3; do
    name=${name// /} when=${when// /}
    [ -n "$name" ] && wanted "$name" "$when" "$@" || continue
    passed=0 failed=0 skipped=0 start=$SECONDS ran=1
    log=$log_folder/$name.log
    # shellcheck disable=SC2086
    $function > "$log" 2>&1
    [ "$failed" -eq 0 ] || show_failure "$log"
    [ "$skipped" -eq 0 ] || grep '^SKIPPED' "$log"
    say "suite: $name: $passed passed, $failed failed ($((SECONDS - start)) s)"
    all_passed=$((all_passed + passed)) all_failed=$((all_failed + failed))
  done 3<<< "$suites"
  rm -rf "$TH_CACHE_DIR"
  say "$all_passed passed, $all_failed failed"
  [ "$all_failed" -eq 0 ] && [ "$ran" -eq 1 ] && [ "$all_passed" -gt 0 ]
}

show_failure() {
  {
    grep -E '^FAILED|^\[FAIL\]|error:|^ERROR|ERROR: ' "$1" | head -n 40
    say "... the end of $1:"
    tail -n 30 "$1"
  } | cut -c 1-300
}
