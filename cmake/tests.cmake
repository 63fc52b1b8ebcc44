# One program and one CTest test for each tests/<kind>/test_*.c; scripts (test_*.py, test_*.sh) run as they are.
# Labels: the folder, the first word of the name (test_device_lanes.c: `device`), `slow` where the name ends in _slow.
# A program or script that exits with 77 was skipped.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_Interpreter_FOUND)
  message(STATUS "No Python: tests that are Python scripts are left out")
endif()

file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.c)
if(support_sources)
  add_library(ullage_test_support STATIC EXCLUDE_FROM_ALL ${support_sources})
  target_include_directories(ullage_test_support PUBLIC tests)
  target_link_libraries(ullage_test_support PUBLIC ullage PkgConfig::CMOCKA)
endif()

# Compute teams that wait without spinning: many programs share few cores here.
set(test_environment "OMP_WAIT_POLICY=passive" "GOMP_SPINCOUNT=2000" "ULLAGE_BINARY=${CMAKE_BINARY_DIR}/ullage"
  "ULLAGE_SOURCE_DIR=${CMAKE_SOURCE_DIR}" "ULLAGE_BUILD_DIR=${CMAKE_BINARY_DIR}"
  "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/cache"
  "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1"
  "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/leaks.supp:print_suppressions=0"
  "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/races.supp:second_deadlock_stack=1"
  "UBSAN_OPTIONS=print_stacktrace=1")
if(ullage_arrow_folder)
  list(APPEND test_environment "ULLAGE_PYARROW=${ullage_arrow_folder}")
endif()
if(ULLAGE_SANITIZE MATCHES "thread")
  list(APPEND test_environment "OMP_NUM_THREADS=1")
endif()

# Programs that prove something about threads: what the TSan build builds and runs.
add_custom_target(concurrency_tests)
if(TARGET ullage_cli)
  add_dependencies(concurrency_tests ullage_cli)
endif()

function(ullage_describe_test name kind)
  string(REGEX MATCH "^test_([a-z0-9]+)" ignored "${name}")
  set(labels "${kind}" "${CMAKE_MATCH_1}")
  set(timeout 300)
  if(name MATCHES "_slow$")
    list(APPEND labels slow)
    set(timeout 1800)
  endif()
  list(REMOVE_DUPLICATES labels)
  if(TARGET ${kind}_${name} AND labels MATCHES "(^|;)(device|run|data|fault)(;|$)")
    add_dependencies(concurrency_tests ${kind}_${name})
  endif()
  set_tests_properties(${kind}.${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout}
    SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment}")
endfunction()

foreach(kind unit ops plan data cli fault)
  file(GLOB programs CONFIGURE_DEPENDS tests/${kind}/test_*.c)
  foreach(source IN LISTS programs)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(${kind}_${name} ${source})
    set_target_properties(${kind}_${name} PROPERTIES OUTPUT_NAME ${name}
      RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests/${kind}")
    target_include_directories(${kind}_${name} PRIVATE tests)
    if(TARGET ullage_test_support)
      target_link_libraries(${kind}_${name} PRIVATE ullage_test_support)
    endif()
    target_link_libraries(${kind}_${name} PRIVATE ullage PkgConfig::CMOCKA)
    if(TARGET ullage_cli AND kind MATCHES "cli|fault")
      add_dependencies(${kind}_${name} ullage_cli)
    endif()
    add_test(NAME ${kind}.${name} COMMAND ${kind}_${name})
    ullage_describe_test(${name} ${kind})
  endforeach()

  file(GLOB scripts CONFIGURE_DEPENDS tests/${kind}/test_*.py tests/${kind}/test_*.sh)
  foreach(script IN LISTS scripts)
    get_filename_component(name "${script}" NAME_WE)
    if(script MATCHES "\\.py$" AND NOT Python3_Interpreter_FOUND)
      continue()
    elseif(script MATCHES "\\.py$")
      add_test(NAME ${kind}.${name} COMMAND ${Python3_EXECUTABLE} ${script})
    else()
      add_test(NAME ${kind}.${name} COMMAND sh ${script})
    endif()
    ullage_describe_test(${name} ${kind})
  endforeach()
endforeach()

foreach(source IN LISTS example_sources)
  get_filename_component(name "${source}" NAME_WE)
  add_test(NAME examples.${name} COMMAND example_${name})
  set_tests_properties(examples.${name} PROPERTIES LABELS "cli;examples" TIMEOUT 300
    ENVIRONMENT "${test_environment}")
endforeach()

# Every public header stands alone, in C17 and in C++17.
file(GLOB public_headers CONFIGURE_DEPENDS include/ullage/*.h)
set(header_sources)
foreach(header IN LISTS public_headers)
  get_filename_component(name "${header}" NAME_WE)
  foreach(language c cpp)
    set(source "${CMAKE_BINARY_DIR}/headers/${name}.${language}")
    set(text "#include \"ullage/${name}.h\"\n#include \"ullage/${name}.h\"\n")
    string(APPEND text "extern int ullage_header_${name}_${language};\n")
    string(APPEND text "int ullage_header_${name}_${language};\n")
    file(CONFIGURE OUTPUT "${source}" CONTENT "${text}" @ONLY)
    list(APPEND header_sources "${source}")
  endforeach()
endforeach()
if(header_sources)
  add_library(ullage_headers OBJECT ${header_sources})
  target_include_directories(ullage_headers PRIVATE include)
  target_compile_options(ullage_headers PRIVATE -Wall -Wextra -Wpedantic -Werror)
  set_target_properties(ullage_headers PROPERTIES C_EXTENSIONS OFF)
endif()
