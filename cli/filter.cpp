// rtf filter: runs signals through a filter, in one piece or in chunks, with states in and out.
#include "filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "core/array_bytes.h"
#include "core/atomic_file.h"
#include "core/npy_bytes.h"
#include "rtf/convolution.h"
#include "rtf/error.h"
#include "rtf/workspace.h"

namespace rtf::cli {
namespace {

void add_options(CLI::App& command, FilterCommandOptions& options) {
  command
      .add_option("--input", options.input,
                  "npy file, (length), (length, channels) or (batch, length, channels); or wav file, read in pieces")
      ->required()
      ->type_name("FILE");
  add_output(command, options.output, "file for the outputs, of the input's shape: npy for npy, wav for wav");
  command
      .add_option("--method", options.method,
                  "auto takes the cheapest whose rounding bound holds, else fft, or recurrence for states")
      ->type_name("METHOD")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "fft", "recurrence", "block"}));
  command.add_option("--initial-state", options.initial_state, "npy file, shape (batch, channels, order)")
      ->type_name("FILE");
  command.add_option("--final-state", options.final_state, "npy file to write the last state to")->type_name("FILE");
  add_count(command, "--chunk", options.chunk, "stream the input in chunks of N samples, the state passed on");
  add_data_type(command, options.dtype,
                "type of samples and states (default: that of the input; in a wav file also PCM)");
}

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::argument, "filter", message); }

struct Sizes {
  std::size_t batch, length, channels;
};

Sizes sizes_of(const Array& u, const std::string& path, std::size_t channels) {
  const auto& shape = u.shape;
  Sizes sizes{1, 0, 1};
  if (shape.size() == 1) sizes = {1, shape[0], 1};
  if (shape.size() == 2) sizes = {1, shape[0], shape[1]};
  if (shape.size() == 3) sizes = {shape[0], shape[1], shape[2]};
  if (shape.empty() || shape.size() > 3 || sizes.channels != channels) {
    fail(fmt::format("{} has shape {}, expected {}(length, {}) or (batch, length, {})", path, shape_text(shape),
                     channels == 1 ? "(length), " : "", channels, channels));
  }
  if (u.values.empty()) fail(fmt::format("{} has shape {}: there is nothing to filter", path, shape_text(shape)));
  return sizes;
}

// The values in the working type; one that is not a number would spread over the whole output of a transform.
template <class T>
std::vector<T> working_values(const Array& array, const std::string& path) {
  std::vector<T> values(array.values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = array.values[i];
    if (!(std::abs(value) <= std::numeric_limits<T>::max())) {
      fail(fmt::format("{} holds {} at flat index {}, expected finite values of {}", path, value, i,
                       sizeof(T) == 4 ? "f32" : "f64"));
    }
    values[i] = static_cast<T>(value);
  }
  return values;
}

template <class T>
Array to_array(std::vector<std::size_t> shape, const std::vector<T>& values) {
  return {std::move(shape), {values.begin(), values.end()}, sizeof(T) == 4 ? DataType::f32 : DataType::f64};
}

// Filters `samples` in place, chunk after chunk; `state` goes in and comes out. Returns the method that was used.
template <class T>
std::string stream(const Cascade& cascade, const FilterCommandOptions& options, const Sizes& sizes, double of_sections,
                   std::vector<T>& samples, std::vector<double>& state) {
  const std::size_t chunk = options.chunk == 0 ? sizes.length : std::min(options.chunk, sizes.length);
  const bool carries = chunk < sizes.length;
  const FilterOptions wanted{filter_method(options.method), carries || !options.initial_state.empty(),
                             carries || !options.final_state.empty()};
  const Signal<T> whole = channels_last(samples.data(), sizes.batch, sizes.length, sizes.channels);
  Executor& executor = default_executor();
  std::optional<CascadePlan<T>> plan;
  Workspace workspace;
  // Passing the state on is a recurrence over the whole length: what is refused there is refused in chunks too.
  std::string warning;
  if (carries) {
    const CascadePlan<T> of_all(cascade, sizes.batch, sizes.length, {FilterMethod::recurrence, true, true});
    if (!options.quiet) warning = rounding_warning(of_all, of_sections);
  }
  for (std::size_t begin = 0; begin < sizes.length; begin += chunk) {
    Signal<T> part = whole;
    part.data = whole.at(0, begin, 0);
    part.length = std::min(chunk, sizes.length - begin);
    if (!plan || plan->length != part.length) {
      plan.emplace(cascade, sizes.batch, part.length, wanted);
      workspace = Workspace(plan->workspace_bytes(executor));
      if (begin == 0 && !options.quiet)
        warn(options, "filter", warning.empty() ? rounding_warning(*plan, of_sections) : warning);
    }
    filter(*plan, part, wanted.initial_state ? std::span<const double>(state) : std::span<const double>(),
           wanted.final_state ? std::span<double>(state) : std::span<double>(), workspace, executor);
  }
  return plan->method();
}

// What passes between sections is not rounded to the type of the samples.
template <class T>
std::string stream_through(const Cascade& cascade, const FilterCommandOptions& options, const Sizes& sizes,
                           double of_sections, std::vector<T>& samples, std::vector<double>& state) {
  if (cascade.stages.size() == 1) return stream(cascade, options, sizes, of_sections, samples, state);
  std::vector<double> wide(samples.begin(), samples.end());
  const std::string method = stream(cascade, options, sizes, of_sections, wide, state);
  std::transform(wide.begin(), wide.end(), samples.begin(), [](double value) { return static_cast<T>(value); });
  return method;
}

// Algorithm 1's kernel needs no correction, so within its length every trained filter can be convolved, stable or not.
bool can_convolve(const TrainedTransferFunction* trained, const FilterCommandOptions& options, std::size_t length) {
  return trained && (options.method == "auto" || options.method == "fft") && options.chunk == 0 &&
         options.initial_state.empty() && options.final_state.empty() && length <= trained->length;
}

template <class T>
void convolve_trained(const TrainedTransferFunction& trained, const Sizes& sizes, std::vector<T>& samples) {
  const std::vector<double> exact = kernel(trained, sizes.length);
  const std::vector<T> taps(exact.begin(), exact.end());
  const Signal<T> signal = channels_last(samples.data(), sizes.batch, sizes.length, sizes.channels);
  convolve<T>(signal, std::span<const T>(taps), signal);
}

void check_outputs(const FilterCommandOptions& options) {
  check_result(options, options.output, "filter");
  if (options.final_state.empty()) return;
  check_result(options, options.final_state, "filter");
  require_two_files(options.output, options.final_state, "the output and the final state");
}

template <class T>
void run_as(const FilterCommandOptions& options, const RunnableFilter& file, const Array& u, const Sizes& sizes) {
  const auto* trained = std::get_if<TrainedTransferFunction>(&file);
  std::optional<Cascade> cascade;
  if (!trained) cascade = cascade_of(options.filter, file);
  const std::vector<std::size_t> state_shape = {sizes.batch, sizes.channels,
                                                trained ? trained->order : cascade->order()};
  std::vector<T> samples = working_values<T>(u, options.input);
  std::vector<double> state = initial_state(options, state_shape);

  std::string method;
  if (can_convolve(trained, options, sizes.length)) {
    require_memory(static_cast<double>(trained->length),
                   fmt::format("{}: a kernel of {} points", options.filter, trained->length));
    naming(options.filter, [&] { convolve_trained(*trained, sizes, samples); });
    method = "fft with Algorithm 1's kernel";
  } else {
    if (trained) cascade = cascade_of(options.filter, file);
    const double of_sections = options.quiet ? 0 : rounding_of_sections(file, sizes.length);
    method =
        naming(options.filter, [&] { return stream_through(*cascade, options, sizes, of_sections, samples, state); });
  }
  if (!std::all_of(samples.begin(), samples.end(), [](T value) { return std::isfinite(value); })) {
    warn(options, "filter", "the output overflows: it holds values that are not finite");
  }

  Array final_array = to_array(state_shape, state);
  if (sizeof(T) == 4) final_array.type = DataType::f32;
  // Both files are on disk before either gets its name.
  StagedFile output(options.output, npy_bytes(to_array(u.shape, samples), options.output), "filter");
  std::optional<StagedFile> final_state;
  if (!options.final_state.empty()) {
    final_state.emplace(options.final_state, npy_bytes(final_array, options.final_state), "filter");
  }
  output.commit();
  if (final_state) final_state->commit();
  say(options, fmt::format("{}: output {}, {}, method {}", options.output, shape_text(u.shape),
                           sizeof(T) == 4 ? "f32" : "f64", method));
}

void run(const FilterCommandOptions& options) {
  check_outputs(options);
  if (is_wav(options.input) != is_wav(options.output)) {
    fail(fmt::format("{} to {}: from wav to wav or from npy to npy; choose another name for the output", options.input,
                     options.output));
  }
  const RunnableFilter file = for_signals(read_runnable_filter(options.filter));
  if (is_wav(options.input)) return filter_wav(options, file);
  const Array u = read_npy(options.input);
  const Sizes sizes = sizes_of(u, options.input, channels_of(file));
  const DataType type = options.dtype.empty() ? u.type : data_type(options.dtype);
  type == DataType::f32 ? run_as<float>(options, file, u, sizes) : run_as<double>(options, file, u, sizes);
}

}  // namespace

FilterMethod filter_method(const std::string& name) {
  static const std::map<std::string, FilterMethod> methods = {{"auto", FilterMethod::automatic},
                                                              {"fft", FilterMethod::fft},
                                                              {"recurrence", FilterMethod::recurrence},
                                                              {"block", FilterMethod::block}};
  return methods.at(name);
}

std::vector<double> initial_state(const FilterCommandOptions& options, const std::vector<std::size_t>& shape) {
  if (options.initial_state.empty()) return std::vector<double>(shape[0] * shape[1] * shape[2]);
  const Array initial = read_npy(options.initial_state);
  if (initial.shape != shape) {
    fail(fmt::format("{} has shape {}, expected (batch, channels, order) = {}", options.initial_state,
                     shape_text(initial.shape), shape_text(shape)));
  }
  return working_values<double>(initial, options.initial_state);
}

void add_filter(CLI::App& app) {
  add_command<FilterCommandOptions>(app, "filter", "Run signals through a filter, with states in and out",
                                    "  echo '{\"a\": [-0.9], \"b\": [1], \"h0\": 0}' > decay.json\n"
                                    "  python3 -c 'import numpy; numpy.save(\"u.npy\", numpy.ones(100))'\n"
                                    "  rtf filter decay.json --input u.npy -o y.npy --final-state x.npy --chunk 32\n"
                                    "  # sound, any length of it; a filter of one channel serves every channel\n"
                                    "  python3 -c 'import wave; f = wave.open(\"in.wav\", \"wb\"); "
                                    "f.setparams((2, 2, 8000, 0, \"NONE\", \"\")); f.writeframes(bytes(32000))'\n"
                                    "  rtf filter decay.json --input in.wav -o out.wav",
                                    add_options, run);
}

}  // namespace rtf::cli
