# Everything Ullage links, gathered in the interface library `ullage_dependencies`.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(NETTLE REQUIRED IMPORTED_TARGET nettle)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(LIBJPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(LIBSPNG REQUIRED IMPORTED_TARGET spng)
pkg_check_modules(LIBWEBP REQUIRED IMPORTED_TARGET libwebp)
pkg_check_modules(LIBZSTD REQUIRED IMPORTED_TARGET libzstd)

find_path(DNNL_INCLUDE_DIR NAMES oneapi/dnnl/dnnl.h dnnl.h)
find_library(DNNL_LIBRARY NAMES dnnl)
if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY)
  message(FATAL_ERROR "oneDNN is missing (Debian: libdnnl-dev)")
endif()

add_library(ullage_dependencies INTERFACE)
target_link_libraries(ullage_dependencies INTERFACE PkgConfig::JANSSON PkgConfig::NETTLE
  PkgConfig::LIBZIP PkgConfig::LIBJPEG PkgConfig::LIBSPNG PkgConfig::LIBWEBP
  PkgConfig::LIBZSTD ZLIB::ZLIB Threads::Threads ${DNNL_LIBRARY} ${CMAKE_DL_LIBS} m)
target_include_directories(ullage_dependencies SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})

# oneDNN's packages run on GCC's OpenMP runtime. A second runtime in the process would mean a second
# team, other numbers and more memory, so a compiler with a runtime of its own builds without OpenMP.
if(ULLAGE_OPENMP)
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
    message(FATAL_ERROR "ULLAGE_OPENMP needs GCC, whose OpenMP runtime oneDNN uses; "
      "use GCC or -DULLAGE_OPENMP=OFF")
  endif()
  find_package(OpenMP REQUIRED COMPONENTS C)
  target_link_libraries(ullage_dependencies INTERFACE OpenMP::OpenMP_C)
  target_compile_definitions(ullage_dependencies INTERFACE ULL__OPENMP=1)
endif()
