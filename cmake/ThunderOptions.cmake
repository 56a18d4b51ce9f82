# How everything is compiled and which libraries the project stands on.
# ThunderFolders.cmake turns folders into targets with these.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
# Line numbers stay in a release, asserts too: they guard against our own bugs.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")

option(TH_SANITIZE "address and undefined-behaviour sanitizers" OFF)
option(TH_TSAN "thread sanitizer, with LLVM's libomp that it can see (clang)" OFF)
option(TH_WERROR "warnings are errors" OFF)
option(TH_FUZZ "build the libFuzzer readers of test/fuzz (clang)" OFF)
option(TH_TESTS "build the unit tests (needs Criterion)" ON)

include(GNUInstallDirs)
include(CheckCCompilerFlag)

add_library(thunder_flags INTERFACE)
target_compile_options(thunder_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes
  -Wmissing-prototypes -ffp-contract=off -fno-math-errno
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
# POSIX (mmap, locales) and the GNU extensions of libc (memfd, sched).
target_compile_definitions(thunder_flags INTERFACE _GNU_SOURCE)
target_include_directories(thunder_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/include)
# gcc takes every array that is filled up to a rank for uninitialized; the
# analyzer of clang-tidy follows the paths.
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
  target_compile_options(thunder_flags INTERFACE -Wno-maybe-uninitialized)
endif()
if(TH_WERROR)
  target_compile_options(thunder_flags INTERFACE -Werror)
endif()
if(TH_SANITIZE)
  target_compile_options(thunder_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(thunder_flags INTERFACE -fsanitize=address,undefined)
  # clang reads a type hash in front of each function that it calls through a
  # pointer; generated code has none, and may start a mapping.
  if(CMAKE_C_COMPILER_ID MATCHES Clang)
    target_compile_options(thunder_flags INTERFACE -fno-sanitize=function)
  endif()
endif()
# libomp answers GOMP_parallel too, and Archer tells the sanitizer of its joins.
set(TH_OPENMP gomp)
if(TH_TSAN)
  target_compile_options(thunder_flags INTERFACE -fsanitize=thread)
  target_link_options(thunder_flags INTERFACE -fsanitize=thread
    -L/usr/lib/llvm-22/lib -Wl,-rpath,/usr/lib/llvm-22/lib)
  set(TH_OPENMP omp)
endif()
if(TH_FUZZ)
  target_compile_options(thunder_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Static LLVM makes large links: lld takes a second where ld.bfd takes ten.
find_program(TH_LLD ld.lld PATHS /usr/lib/llvm-22/bin NO_DEFAULT_PATH)
find_program(TH_LLD ld.lld)
if(TH_LLD)
  get_filename_component(lld_folder ${TH_LLD} DIRECTORY)
  add_link_options(-fuse-ld=lld -B${lld_folder})
endif()
add_link_options(-Wl,--gc-sections -Wl,--as-needed)
target_compile_options(thunder_flags INTERFACE -ffunction-sections
  -fdata-sections)

# ---- libraries -------------------------------------------------------------

find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(MINIZIP REQUIRED IMPORTED_TARGET minizip)

# LLVM's archives, by component; found in LLVM's own folder, so that the list
# of directories that find_package(LLVM) would add stays out.
find_package(LLVM 22.1 REQUIRED CONFIG
  HINTS /usr/lib/llvm-22/lib/cmake/llvm)
set(TH_LLVM_COMPONENTS core support target irreader bitwriter analysis passes
  x86codegen x86asmparser x86desc x86info
  aarch64codegen aarch64asmparser aarch64desc aarch64info
  nvptxcodegen nvptxdesc nvptxinfo
  orcjit orcdebugging perfjitevents)
llvm_map_components_to_libnames(TH_LLVM_LIBS ${TH_LLVM_COMPONENTS})
add_library(thunder_llvm INTERFACE)
target_include_directories(thunder_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(thunder_llvm INTERFACE ${TH_LLVM_LIBS} stdc++)
