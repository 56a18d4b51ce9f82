# lit's settings: test/<folder>/*.test and *.trace against the build named by
# TH_BUILD (build/ when unset).

import os

import lit.formats

config.name = "thunder"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".test", ".trace"]
config.excludes = [
    "unit", "fuzz", "package", "conformance", "planted", "aarch64", "Inputs"]
config.test_source_root = os.path.dirname(__file__)

source = os.path.dirname(config.test_source_root)
build = os.path.abspath(
    os.environ.get("TH_BUILD", os.path.join(source, "build")))
config.test_exec_root = os.path.join(build, "lit")

for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TH_CACHE_DIR"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# The tools, FileCheck, not, split-file under their plain names.
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(build, "bin"), os.path.join(build, "bench"),
     "/usr/lib/llvm-22/bin", os.environ["PATH"]])
config.substitutions.append(
    ("%conformance", os.path.join(config.test_source_root, "conformance")))
config.substitutions.append(("%source", source))

full = os.environ.get(
    "TH_CONFORMANCE", os.path.join(source, "..", "shared", "conformance"))
if os.path.isdir(full):
    config.available_features.add("conformance")
config.substitutions.append(("%full", os.path.abspath(full)))

if os.path.exists(os.path.join(build, "CMakeCache.txt")):
    with open(os.path.join(build, "CMakeCache.txt")) as cache:
        if "TH_SANITIZE:BOOL=ON" in cache.read():
            config.available_features.add("asan")
