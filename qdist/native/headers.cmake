# Says in one line what to do where Python has come without its headers, as Debian's does, before CMake tells that another way.
if(Python_EXECUTABLE)
  execute_process(COMMAND "${Python_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_path('include'))"
                  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE headers)
  if(headers AND NOT EXISTS "${headers}/Python.h")
    message(FATAL_ERROR "qdist is built from source here and finds no Python.h in ${headers}. Install it with `apt install "
                        "python3-dev` or `dnf install python3-devel`, or install a wheel of qdist, which needs none.")
  endif()
endif()
