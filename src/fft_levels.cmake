# Compiles core/fft_level.cpp for every instruction set of the processor family and links it into rtf.
#
# A file compiled for AVX-512 also emits inline functions of the standard library, which the linker could take for
# the whole program and so break it on older processors. Each level is therefore linked into one object whose only
# global symbol is its entry function.
function(rtf_add_fft_level level)
  add_library(rtf_fft_${level} OBJECT core/fft_level.cpp)
  target_compile_definitions(rtf_fft_${level} PRIVATE RTF_FFT_LEVEL=${level})
  target_compile_options(rtf_fft_${level} PRIVATE -w $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique> ${ARGN})  # -w: DUCC's warnings are not ours to mend
  target_include_directories(rtf_fft_${level} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  target_include_directories(rtf_fft_${level} SYSTEM PRIVATE "${RTF_DUCC_DIR}")
  if(RTF_SANITIZE)
    # Sanitized templates take minutes and gigabytes: one level is watched for all, and not for undefined behaviour.
    if(level STREQUAL portable)
      target_compile_options(rtf_fft_${level} PRIVATE -fno-sanitize=undefined -O1 -g0)
    else()
      target_compile_options(rtf_fft_${level} PRIVATE -fno-sanitize=all -g0)
    endif()
  endif()
  if(level STREQUAL portable OR RTF_SANITIZE)
    target_sources(rtf PRIVATE $<TARGET_OBJECTS:rtf_fft_${level}>)
    return()
  endif()
  set(object "${CMAKE_CURRENT_BINARY_DIR}/fft_${level}.o")
  add_custom_command(
    OUTPUT "${object}"
    DEPENDS rtf_fft_${level} $<TARGET_OBJECTS:rtf_fft_${level}>
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o "${object}" $<TARGET_OBJECTS:rtf_fft_${level}>
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=rtf_fft_${level} "${object}"
    VERBATIM)
  target_sources(rtf PRIVATE "${object}")
endfunction()

rtf_add_fft_level(portable)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  rtf_add_fft_level(v3 -march=x86-64-v3)
  rtf_add_fft_level(v4 -march=x86-64-v4 -mprefer-vector-width=512)
endif()
