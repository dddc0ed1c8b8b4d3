// rtf filter on sound files: block after block with the state carried, whatever the length of the file.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "core/atomic_file.h"
#include "core/npy_bytes.h"
#include "filter.h"
#include "rtf/wav.h"
#include "rtf/workspace.h"

namespace rtf::cli {
namespace {

constexpr std::size_t block_samples = std::size_t{1} << 17;  // of all channels together: 1 MB

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::argument, "filter", message); }

// One channel serves every channel of the file.
Cascade for_channels(Cascade cascade, std::size_t channels) {
  if (cascade.channels() == channels) return cascade;
  cascade.beside.resize(channels, cascade.beside[0]);
  for (TransferFunction& stage : cascade.stages) {
    const TransferFunction one = std::move(stage);
    stage = make_coefficients(channels, 1, one.order);
    stage.a = one.a;
    for (std::size_t c = 0; c < channels; ++c) {
      std::copy(one.b.begin(), one.b.end(), stage.b.begin() + static_cast<std::ptrdiff_t>(c * one.order));
      stage.h0[c] = one.h0[0];
    }
  }
  return cascade;
}

void check_samples(const std::vector<double>& samples, std::uint64_t begin, std::size_t channels,
                   const std::string& path) {
  const auto bad = std::find_if(samples.begin(), samples.end(), [](double value) { return !std::isfinite(value); });
  if (bad == samples.end()) return;
  const auto index = static_cast<std::size_t>(bad - samples.begin());
  fail(fmt::format("{} holds {} at frame {} of channel {}, expected finite values", path, *bad,
                   begin + index / channels, index % channels));
}

struct Sound {
  WavReader& reader;
  WavWriter& writer;
};

// Returns the method that was used; `state` goes in and comes out.
std::string stream(const FilterCommandOptions& options, const Cascade& cascade, const Sound& sound,
                   const RunnableFilter& file, std::vector<double>& state) {
  const std::size_t channels = cascade.channels();
  const std::uint64_t length = sound.reader.length();
  const std::size_t wanted = options.chunk > 0 ? options.chunk : std::max<std::size_t>(block_samples / channels, 1);
  const auto block = static_cast<std::size_t>(std::min<std::uint64_t>(wanted, length));
  require_memory(static_cast<double>(block) * static_cast<double>(channels),
                 fmt::format("{}: a block of {} frames", options.input, block));
  const auto make_plan = [&](std::size_t frames, FilterMethod method) {
    return naming(options.filter, [&] { return CascadePlan<double>(cascade, 1, frames, {method, true, true}); });
  };
  // Passing the state on is a recurrence over the whole length: what is refused there is refused in blocks too.
  const auto of_all = make_plan(static_cast<std::size_t>(length), FilterMethod::recurrence);
  if (!options.quiet)
    warn(options, "filter", rounding_warning(of_all, rounding_of_sections(file, static_cast<std::size_t>(length))));

  Executor& executor = default_executor();
  std::optional<CascadePlan<double>> plan;
  Workspace workspace;
  std::vector<double> samples;
  bool finite = true;
  for (std::uint64_t begin = 0; begin < length; begin += samples.size() / channels) {
    samples.resize(static_cast<std::size_t>(std::min<std::uint64_t>(block, length - begin)) * channels);
    sound.reader.read(samples);
    check_samples(samples, begin, channels, options.input);
    const std::size_t frames = samples.size() / channels;
    if (!plan || plan->length != frames) {
      plan.emplace(make_plan(frames, filter_method(options.method)));
      workspace = Workspace(plan->workspace_bytes(executor));
    }
    const Signal<double> part = channels_last(samples.data(), 1, frames, channels);
    filter(*plan, part, state, state, workspace, executor);
    finite = finite && std::all_of(samples.begin(), samples.end(), [](double value) { return std::isfinite(value); });
    sound.writer.write(samples);
  }
  if (!finite) warn(options, "filter", "the output overflows: it holds values that are not finite");
  return plan->method();
}

}  // namespace

bool is_wav(const std::string& path) {
  std::string suffix = path.size() < 4 ? "" : path.substr(path.size() - 4);
  for (char& c : suffix) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return suffix == ".wav";
}

void filter_wav(const FilterCommandOptions& options, const RunnableFilter& file) {
  WavReader reader(options.input);
  WavFormat format = reader.format();
  const std::size_t filters = channels_of(file);
  if (filters != 1 && filters != format.channels) {
    fail(fmt::format("channels of {}: {}, of {}: {}; expected as many, or a filter of one channel for all",
                     options.input, format.channels, options.filter, filters));
  }
  if (reader.length() == 0) fail(fmt::format("{} has no samples: there is nothing to filter", options.input));
  if (!options.dtype.empty()) format.samples = options.dtype == "f32" ? SampleFormat::f32 : SampleFormat::f64;

  const Cascade cascade = for_channels(cascade_of(options.filter, file), format.channels);
  const std::vector<std::size_t> state_shape = {1, format.channels, cascade.order()};
  std::vector<double> state = initial_state(options, state_shape);
  WavWriter writer(options.output, format, reader.length());
  const std::string method = stream(options, cascade, {reader, writer}, file, state);
  // Both files are on disk before either gets its name.
  writer.flush();
  std::optional<StagedFile> final_state;
  if (!options.final_state.empty()) {
    final_state.emplace(options.final_state, npy_bytes({state_shape, state, DataType::f64}, options.final_state),
                        "filter");
  }
  writer.commit();
  if (final_state) final_state->commit();
  if (writer.clipped() > 0) {
    warn(options, "filter",
         fmt::format("{} of {} samples were clipped at full scale; --dtype f32 keeps them as they are",
                     writer.clipped(), reader.length() * format.channels));
  }
  say(options,
      fmt::format("{}: {} frames, {} channel{}, {} Hz, {}, method {}", options.output, reader.length(), format.channels,
                  format.channels == 1 ? "" : "s", format.rate, name(format.samples), method));
}

}  // namespace rtf::cli
