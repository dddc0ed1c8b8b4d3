// rtf._core: the torch-free library for Python. Its callers in python/rtf turn what comes in into arrays first.
#include <new>
#include <stdexcept>

#include "python/bindings.h"
#include "rtf/error.h"
#include "rtf/version.h"

namespace {

void raise_in_python(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const rtf::Error& error) {
    PyErr_SetString(error.code() == rtf::ErrorCode::io ? PyExc_OSError : PyExc_ValueError, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "there is not enough memory");
  } catch (const std::length_error&) {  // more than a vector can ever hold
    PyErr_SetString(PyExc_MemoryError, "there is not enough memory");
  }
}

}  // namespace

NB_MODULE(_core, m) {
  nanobind::register_exception_translator(raise_in_python);
  m.attr("version") = rtf::version;
  rtf::python::add_checkpoint(m);
  rtf::python::add_deployment(m);
  rtf::python::add_filter_file(m);
  rtf::python::add_functions(m);
  rtf::python::add_toolbox(m);
  rtf::python::add_sequences(m);
  rtf::python::add_stream(m);
}
