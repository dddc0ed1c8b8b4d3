# Installs the build into an empty prefix, builds this folder against it as a stranger would, and runs the result.
foreach(name IN ITEMS build source work generator make_program compiler config python model)
  if(NOT DEFINED ${name})
    message(FATAL_ERROR "run.cmake needs -D ${name}=...")
  endif()
endforeach()

file(REMOVE_RECURSE "${work}")
set(run COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${work}/prefix" --config "${config}"
                OUTPUT_QUIET ${run})
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${work}/build" -G "${generator}"
                        "-DCMAKE_MAKE_PROGRAM=${make_program}" "-DCMAKE_CXX_COMPILER=${compiler}"
                        "-DCMAKE_BUILD_TYPE=${config}" "-DCMAKE_PREFIX_PATH=${work}/prefix" ${run})
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${work}/build" --config "${config}" ${run})
execute_process(COMMAND "${work}/build/bin/consume" ${run})
# So are the example products built.
foreach(product IN ITEMS audio sensor)
  execute_process(COMMAND "${CMAKE_COMMAND}" -S "${source}/../../examples/${product}" -B "${work}/${product}" -G "${generator}"
                          "-DCMAKE_MAKE_PROGRAM=${make_program}" "-DCMAKE_CXX_COMPILER=${compiler}"
                          "-DCMAKE_BUILD_TYPE=${config}" "-DCMAKE_PREFIX_PATH=${work}/prefix" ${run})
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${work}/${product}" --config "${config}" ${run})
endforeach()
execute_process(COMMAND "${work}/prefix/bin/rtf" --version ${run})
execute_process(COMMAND "${work}/build/bin/consume_c" "${model}" ${run})
execute_process(COMMAND "${python}" "${source}/c.py" "${work}/prefix" "${model}" "${work}/c" ${run})
if(EXISTS "${work}/prefix/bin/rtf-train")
  execute_process(COMMAND "${work}/build/bin/consume_torch" ${run})
  execute_process(COMMAND "${work}/prefix/bin/rtf" train --version ${run})
endif()
