# The module that reads Parquet, where Apache Arrow's C++ libraries are: a shared object of its own, opened when it is
# first needed, so that nothing else is linked with C++. Looked for in the folder of the Python package pyarrow that
# -DULLAGE_PYARROW=DIR or the environment's ULLAGE_PYARROW names; with pkg-config; in build/pyarrow; as python3 has it.
set_source_files_properties(src/data/parquet/module.c PROPERTIES COMPILE_DEFINITIONS
  "ULL__LIBRARY_FOLDER=\"${CMAKE_INSTALL_LIBDIR}\"")

set(ULLAGE_PYARROW "" CACHE PATH "Folder of the Python package pyarrow, whose libraries read Parquet")
if(NOT "$ENV{ULLAGE_PYARROW}" STREQUAL "")
  set_property(CACHE ULLAGE_PYARROW PROPERTY VALUE "$ENV{ULLAGE_PYARROW}")
endif()

# A package has its libraries under the names that they are loaded by, and their headers in `include`.
function(ullage_look_in_package folder)
  file(GLOB arrow "${folder}/libarrow.so.[0-9]*" "${folder}/libarrow.[0-9]*.dylib")
  file(GLOB parquet "${folder}/libparquet.so.[0-9]*" "${folder}/libparquet.[0-9]*.dylib")
  if(arrow AND parquet AND EXISTS "${folder}/include/parquet/arrow/reader.h")
    list(GET parquet 0 parquet)
    list(GET arrow 0 arrow)
    set(ullage_arrow_libraries "${parquet};${arrow}" PARENT_SCOPE)
    set(ullage_arrow_includes "${folder}/include" PARENT_SCOPE)
    set(ullage_arrow_folder "${folder}" PARENT_SCOPE)
  endif()
endfunction()

function(ullage_find_arrow)
  if(ULLAGE_PYARROW)
    ullage_look_in_package("${ULLAGE_PYARROW}")
    if(NOT ullage_arrow_libraries)
      message(WARNING "ULLAGE_PYARROW: ${ULLAGE_PYARROW} is no pyarrow with libraries and headers")
    endif()
  endif()
  if(NOT ullage_arrow_libraries)
    pkg_check_modules(ULLAGE_ARROW QUIET parquet arrow)
    set(ullage_arrow_libraries "${ULLAGE_ARROW_LINK_LIBRARIES}")
    set(ullage_arrow_includes "${ULLAGE_ARROW_INCLUDE_DIRS}")
  endif()
  if(NOT ullage_arrow_libraries)
    ullage_look_in_package("${CMAKE_SOURCE_DIR}/build/pyarrow/pyarrow")
  endif()
  if(NOT ullage_arrow_libraries)
    execute_process(OUTPUT_VARIABLE found ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND python3 -c
      "import importlib.util as u; print(*(u.find_spec('pyarrow').submodule_search_locations or []))")
    if(found)
      ullage_look_in_package("${found}")
    endif()
  endif()
  foreach(name libraries includes folder)
    set(ullage_arrow_${name} "${ullage_arrow_${name}}" PARENT_SCOPE)
  endforeach()
endfunction()

set(ullage_arrow_folder "")
ullage_find_arrow()
if(NOT ullage_arrow_libraries)
  message(STATUS "Parquet: no (pip install pyarrow, or Apache Arrow's development files)")
  return()
endif()

# Arrow's interface in C++ moves; with another one the rest is built without Parquet.
if(NOT "${ULLAGE_ARROW_TRIED}" STREQUAL "${ullage_arrow_libraries}")
  unset(ULLAGE_ARROW_WORKS CACHE)
  set(ULLAGE_ARROW_TRIED "${ullage_arrow_libraries}" CACHE INTERNAL "")
endif()
try_compile(ULLAGE_ARROW_WORKS "${CMAKE_BINARY_DIR}/arrow" "${CMAKE_SOURCE_DIR}/cmake/arrow_works.cc"
  CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${CMAKE_SOURCE_DIR}/src;${ullage_arrow_includes}"
  LINK_LIBRARIES ${ullage_arrow_libraries} CXX_STANDARD 20)
if(NOT ULLAGE_ARROW_WORKS)
  message(STATUS "Parquet: no (Apache Arrow is there, but of another version or for another compiler)")
  return()
endif()
message(STATUS "Parquet: ${ullage_arrow_libraries}")

# Sanitizers stay outside: Arrow's libraries know nothing of them, and containers cross between the two.
add_library(ullage_parquet MODULE src/data/parquet/arrow_module.cc)
target_include_directories(ullage_parquet PRIVATE src)
target_include_directories(ullage_parquet SYSTEM PRIVATE ${ullage_arrow_includes})
target_compile_options(ullage_parquet PRIVATE -Wall -Wextra $<$<BOOL:${ULLAGE_WERROR}>:-Werror>)
target_link_libraries(ullage_parquet PRIVATE ${ullage_arrow_libraries})
set_target_properties(ullage_parquet PROPERTIES PREFIX "" CXX_STANDARD 20 CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}" BUILD_RPATH "${ullage_arrow_folder}"
  INSTALL_RPATH "${ullage_arrow_folder}")
install(TARGETS ullage_parquet LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/ullage")
