# LibTorch from the Python package torch: the imported target rtf::libtorch.
#
# torch's own CMake package wants a CUDA toolkit whenever torch was built with CUDA, and overwrites CUDA flags.
# The headers and three libraries are all that is needed.
set(RTF_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python")
if(NOT EXISTS "${RTF_PYTHON}")
  find_program(RTF_PYTHON3 NAMES python3 REQUIRED)
  set(RTF_PYTHON "${RTF_PYTHON3}")
endif()
set(RTF_TORCH_DIR "" CACHE PATH "The folder of the Python package torch 2.11; empty: the one of .venv, else of python3")
if(NOT RTF_TORCH_DIR)
  execute_process(
    COMMAND "${RTF_PYTHON}" -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE rtf_torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE rtf_torch_failed ERROR_QUIET)
  if(rtf_torch_failed)
    message(FATAL_ERROR "PyTorch is not installed; run scripts/setup.sh, or configure with RTF_TORCH=OFF")
  endif()
else()
  set(rtf_torch_dir "${RTF_TORCH_DIR}")
endif()
file(STRINGS "${rtf_torch_dir}/version.py" rtf_torch_version REGEX "^__version__")
if(NOT rtf_torch_version MATCHES "2\\.11\\.")
  message(FATAL_ERROR "${rtf_torch_dir} has ${rtf_torch_version}; rtf is built against torch 2.11")
endif()

add_library(rtf_libtorch INTERFACE)
add_library(rtf::libtorch ALIAS rtf_libtorch)
target_include_directories(rtf_libtorch SYSTEM INTERFACE
  "${rtf_torch_dir}/include" "${rtf_torch_dir}/include/torch/csrc/api/include")
# at::parallel_for is a template over OpenMP: compiled without it, it runs on one thread.
target_compile_options(rtf_libtorch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_directories(rtf_libtorch INTERFACE "${rtf_torch_dir}/lib")
# libstdc++ comes first: torch's libraries export a std::filesystem of their own whose remove_all() calls a null pointer.
target_link_libraries(rtf_libtorch INTERFACE stdc++ torch torch_cpu c10 gomp)
target_link_options(rtf_libtorch INTERFACE "-Wl,-rpath,${rtf_torch_dir}/lib")

# What sources include of torch, to be precompiled: reading it takes 9 s. A target may use that of another whose
# options are the same.
set(rtf_torch_headers <ATen/ATen.h> <torch/csrc/autograd/custom_function.h> <torch/library.h> <torch/nn/module.h>)
