# What is installed: libthunder (shared, with LLVM inside and hidden; static,
# with its link line exported), the tools, headers, and the files by which
# other projects find them.

th_all_folders(folders)
if(NOT folders)
  return()
endif()
set(objects "")
foreach(folder IN LISTS folders)
  list(APPEND objects $<TARGET_OBJECTS:${folder}>)
endforeach()

# ---- shared library --------------------------------------------------------

set(exports ${PROJECT_SOURCE_DIR}/cmake/thunder.map)
add_library(thunder SHARED ${objects})
target_include_directories(thunder INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(thunder PRIVATE ${folders})
target_link_options(thunder PRIVATE
  -Wl,--exclude-libs,ALL -Wl,--version-script=${exports})
if(NOT TH_SANITIZE)
  target_link_options(thunder PRIVATE -Wl,-z,defs)
endif()
set_target_properties(thunder PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${exports}
  EXPORT_NAME thunder)

# ---- static library --------------------------------------------------------

add_library(thunder_static STATIC ${objects})
set_target_properties(thunder_static PROPERTIES
  OUTPUT_NAME thunder
  LINKER_LANGUAGE C)

# ---- tools -----------------------------------------------------------------

# tools/<name>.c or tools/<name>/*.c becomes bin/<name>.  A tool uses the
# installed interface, except those listed here: they show its inside.
set(TH_INSIDE_TOOLS thunder-opt)

function(th_tool name)
  add_executable(${name} ${ARGN})
  if(name IN_LIST TH_INSIDE_TOOLS)
    th_all_folders(inside)
    target_link_libraries(${name} PRIVATE ${inside})
  else()
    target_link_libraries(${name} PRIVATE
      thunder_flags thunder PkgConfig::JANSSON m)
  endif()
  set_target_properties(${name} PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS ${name} RUNTIME)
endfunction()

file(GLOB entries CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*)
foreach(entry IN LISTS entries)
  get_filename_component(name ${entry} NAME_WE)
  get_filename_component(extension ${entry} EXT)
  if(IS_DIRECTORY ${entry})
    file(GLOB sources CONFIGURE_DEPENDS ${entry}/*.c)
    if(sources)
      th_tool(${name} ${sources})
    endif()
  elseif(extension STREQUAL ".c")
    th_tool(${name} ${entry})
  endif()
endforeach()

# ---- examples and benchmarks: the installed interface alone

# <kind>/<name>.c becomes <kind>/<name>; bench/bench*.c are one program.
function(th_small_program kind name)
  add_executable(${kind}_${name} ${ARGN})
  set_target_properties(${kind}_${name} PROPERTIES
    OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${kind})
  target_link_libraries(${kind}_${name} PRIVATE thunder_flags thunder m)
endfunction()

file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/bench*.c)
th_small_program(bench bench ${bench_sources})
target_compile_definitions(bench_bench PRIVATE
  TH_BENCH_DIR="${PROJECT_SOURCE_DIR}/bench")
target_link_libraries(bench_bench PRIVATE
  PkgConfig::JANSSON ${TH_OPENMP} ${CMAKE_DL_LIBS})

foreach(kind IN ITEMS examples bench)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${kind}/*.c)
  list(REMOVE_ITEM sources ${bench_sources})
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    th_small_program(${kind} ${name} ${source})
  endforeach()
endforeach()

# ---- package ---------------------------------------------------------------

include(CMakePackageConfigHelpers)

# The link line of the static library, as LLVM's own program states it.
find_program(TH_LLVM_CONFIG llvm-config PATHS ${LLVM_TOOLS_BINARY_DIR}
  NO_DEFAULT_PATH REQUIRED)
list(TRANSFORM TH_LLVM_COMPONENTS TOLOWER OUTPUT_VARIABLE components)
execute_process(
  COMMAND ${TH_LLVM_CONFIG} --link-static --ldflags --libs ${components}
  OUTPUT_VARIABLE TH_STATIC_LLVM OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" " " TH_STATIC_LLVM "${TH_STATIC_LLVM}")
set(TH_STATIC_LIBS
  "${TH_STATIC_LLVM} -lminizip -lzstd -lz -lgomp -lstdc++ -lpthread -ldl -lm")

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/thunder)
configure_package_config_file(cmake/thunderConfig.cmake.in
  ${PROJECT_BINARY_DIR}/thunderConfig.cmake
  INSTALL_DESTINATION ${package}
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/thunderConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH TH_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/thunder.pc.in ${PROJECT_BINARY_DIR}/thunder.pc @ONLY)

install(TARGETS thunder EXPORT thunderTargets)
install(TARGETS thunder_static ARCHIVE)
install(DIRECTORY include/thunder TYPE INCLUDE)
install(EXPORT thunderTargets NAMESPACE thunder:: DESTINATION ${package})
install(FILES ${PROJECT_BINARY_DIR}/thunderConfig.cmake
  ${PROJECT_BINARY_DIR}/thunderConfigVersion.cmake DESTINATION ${package})
install(FILES ${PROJECT_BINARY_DIR}/thunder.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
