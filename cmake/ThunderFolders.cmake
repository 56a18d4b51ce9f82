# One target for each folder of the library, with include folders that let it
# see what it may use and nothing else.
#
#   th_folder(<name> <path> [USES <name>...] [HEADERS <folder>/<header>...]
#             [LINK <library>...])
#
# makes the static library thunder_<name> from <path>/*.c.  Its headers are
# included as "<name>/x.h": <build>/include/<name>/<name> is a link to <path>.
# USES passes include folders and link order on.  HEADERS names single headers
# of folders above this one that it may see as well (an interface that is
# implemented higher up).
#
#   th_folder_tests(<target> <folder>... SOURCES <file>...)
#
# makes a program that sees the inside of these folders.

set(TH_FOLDERS "")

function(th_folder name path)
  cmake_parse_arguments(arg "" "" "USES;HEADERS;LINK" ${ARGN})
  set(source ${PROJECT_SOURCE_DIR}/${path})
  set(target thunder_${name})
  file(GLOB sources CONFIGURE_DEPENDS ${source}/*.c)

  set(view ${PROJECT_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${view} ${source})
  file(CREATE_LINK ${source} ${view}/${name} SYMBOLIC)

  # A folder without sources is legal: its headers can still be used.
  set(scope INTERFACE)
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    set_property(GLOBAL APPEND PROPERTY TH_FOLDERS ${name})
  else()
    add_library(${target} INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${view})
  target_link_libraries(${target} ${scope} thunder_flags ${arg_LINK})
  foreach(used IN LISTS arg_USES)
    target_link_libraries(${target} ${scope} thunder_${used})
  endforeach()

  foreach(header IN LISTS arg_HEADERS)
    get_filename_component(folder ${header} DIRECTORY)
    set(window ${PROJECT_BINARY_DIR}/include/${name}_window)
    file(MAKE_DIRECTORY ${window}/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/lib/${header} ${window}/${header}
      SYMBOLIC)
    target_include_directories(${target} ${scope} ${window})
  endforeach()
endfunction()

# All folders that have sources, lowest first.
function(th_all_folders out)
  get_property(names GLOBAL PROPERTY TH_FOLDERS)
  set(targets "")
  foreach(name IN LISTS names)
    list(APPEND targets thunder_${name})
  endforeach()
  set(${out} ${targets} PARENT_SCOPE)
endfunction()
