# LibTorch from the Python package torch: the imported target rtf::libtorch, and RTF_TORCH afterwards ON or OFF.
#
# torch's own CMake package wants a CUDA toolkit whenever torch was built with CUDA, and overwrites CUDA flags.
# The headers and three libraries are all that is needed.
set(RTF_TORCH_DIR "" CACHE PATH "The folder of the Python package torch 2.11; empty: that of Python_EXECUTABLE")
if(NOT RTF_TORCH_DIR)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE rtf_torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE rtf_torch_failed ERROR_QUIET)
  if(rtf_torch_failed AND RTF_TORCH STREQUAL "AUTO")
    message(STATUS "What needs PyTorch is left out: it is not installed for ${Python_EXECUTABLE}")
    set(RTF_TORCH OFF)
    return()
  elseif(rtf_torch_failed)
    message(FATAL_ERROR "PyTorch is not installed; run scripts/setup.sh, or configure with RTF_TORCH=OFF")
  endif()
else()
  set(rtf_torch_dir "${RTF_TORCH_DIR}")
endif()
file(STRINGS "${rtf_torch_dir}/version.py" rtf_torch_version REGEX "^__version__")
if(NOT rtf_torch_version MATCHES "2\\.11\\.")
  message(FATAL_ERROR "${rtf_torch_dir} has ${rtf_torch_version}; rtf is built against torch 2.11")
endif()

set(RTF_TORCH ON)
add_library(rtf_libtorch INTERFACE)
add_library(rtf::libtorch ALIAS rtf_libtorch)
target_include_directories(rtf_libtorch SYSTEM INTERFACE
  "${rtf_torch_dir}/include" "${rtf_torch_dir}/include/torch/csrc/api/include")
# at::parallel_for is a template over OpenMP: compiled without it, it runs on one thread.
target_compile_options(rtf_libtorch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_directories(rtf_libtorch INTERFACE "${rtf_torch_dir}/lib")
# libstdc++ comes first: torch's libraries export a std::filesystem of their own whose remove_all() calls a null pointer.
target_link_libraries(rtf_libtorch INTERFACE stdc++ torch torch_cpu c10 gomp)
# A wheel is carried to where torch lies elsewhere (python/CMakeLists.txt).
if(NOT SKBUILD)
  target_link_options(rtf_libtorch INTERFACE "-Wl,-rpath,${rtf_torch_dir}/lib")
endif()
