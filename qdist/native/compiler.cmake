# Says in one line what to do where there is no C++ compiler, before CMake tells that another way.
if(NOT CMAKE_CXX_COMPILER)
  set(compilers c++ g++ clang++ icpx CC)
  # scikit-build-core sets CXX to the compiler that Python was built with, where a user has set none.
  if(NOT "$ENV{CXX}" STREQUAL "")
    separate_arguments(compilers UNIX_COMMAND "$ENV{CXX}")
    list(GET compilers 0 compilers)
  endif()
  find_program(found_compiler NAMES ${compilers})
  if(NOT found_compiler)
    string(REPLACE ";" ", " compilers "${compilers}")
    message(FATAL_ERROR "qdist is built from source here and finds no C++ compiler (${compilers}). Install one (C++20: g++ 11 "
                        "or later, clang 14 or later) with `apt install g++`, `dnf install gcc-c++` or `conda install gxx`, "
                        "name one by CXX=/path/to/compiler, or install a wheel of qdist, which needs none.")
  endif()
endif()
