# Helper functions of the folder CMakeLists.txt files.

add_library(steplens_warnings INTERFACE)
# missing-field-initializers: designated initializers leave fields out on purpose.
# restrict: GCC 12 reports `"literal" + std::string` wrongly at -O2 (GCC bug 105651).
# maybe-uninitialized: GCC 12 reports the unused value of an empty std::optional; clang-tidy's analyzer
# and the sanitizers look for the real thing.
target_compile_options(steplens_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Werror
    -Wno-missing-field-initializers -Wno-restrict -Wno-maybe-uninitialized>)

# steplens_static_dependency(NAME HEADER ARCHIVE): a system library, static so that the programs are
# relocatable, as deps::NAME.
function(steplens_static_dependency name header archive)
  find_path(STEPLENS_${name}_INCLUDE ${header} REQUIRED)
  find_library(STEPLENS_${name}_LIBRARY NAMES ${archive} ${name} REQUIRED)
  mark_as_advanced(STEPLENS_${name}_INCLUDE STEPLENS_${name}_LIBRARY)
  add_library(deps::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(deps::${name} PROPERTIES IMPORTED_LOCATION ${STEPLENS_${name}_LIBRARY})
  target_include_directories(deps::${name} SYSTEM INTERFACE ${STEPLENS_${name}_INCLUDE})
endfunction()

# steplens_link(TARGET SCOPE LIBRARIES...): links those steplens:: libraries that exist in this build,
# and all others.
function(steplens_link target scope)
  foreach(library IN LISTS ARGN)
    if(TARGET ${library} OR NOT library MATCHES "^steplens::")
      target_link_libraries(${target} ${scope} ${library})
    endif()
  endforeach()
endfunction()

# steplens_library(NAME SOURCES... HEADERS... LINKS...): one folder, one target, one alias.
# A folder without sources makes no target.
function(steplens_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;HEADERS;LINKS" ${ARGN})
  if(NOT arg_SOURCES)
    message(STATUS "steplens::${name}: no sources")
    return()
  endif()
  add_library(${name} STATIC ${arg_SOURCES})
  add_library(steplens::${name} ALIAS ${name})
  target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  steplens_link(${name} PUBLIC ${arg_LINKS})
  target_link_libraries(${name} PRIVATE steplens_warnings)
endfunction()

# steplens_program(NAME MAIN LINKS...): an executable in bin/, installed.
function(steplens_program name main)
  cmake_parse_arguments(arg "" "" "LINKS" ${ARGN})
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${main})
    message(STATUS "${name}: no ${main}")
    return()
  endif()
  add_executable(${name} ${main})
  steplens_link(${name} PRIVATE ${arg_LINKS} steplens_warnings)
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()
