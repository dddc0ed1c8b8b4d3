// rtf stream: a model file over samples of any length, in bounded memory.
#include "rtf/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>

#include "checked_input.h"
#include "common.h"
#include "core/atomic_file.h"
#include "sample_sink.h"
#include "sample_source.h"

namespace rtf::cli {
namespace {

struct StreamOptions : CommonOptions {
  std::vector<std::string> inputs = {standard_stream};
  std::string output = standard_stream, from, to, state_in, state_out;
};

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::argument, "stream", message); }

// Of the answers: that of all inputs together, where it is known.
template <class In>
std::optional<std::uint64_t> length_of(const std::vector<Input<In>>& inputs) {
  std::uint64_t sum = 0;
  for (const auto& input : inputs) {
    if (!input.source().length()) return {};
    sum += *input.source().length();
  }
  return sum;
}

// Of a sound that all inputs are parts of.
template <class In>
const WavFormat* sound_of(const std::vector<Input<In>>& inputs) {
  const WavFormat* first = inputs[0].source().sound();
  for (const auto& input : inputs)
    if (!input.source().sound() || input.source().sound()->rate != first->rate) return nullptr;
  return first;
}

// The state that goes in, and after the last sample out.
template <class T>
class States {
 public:
  States(const StreamOptions& options, stream::Streams<T>& streams, const stream::Model<T>& model, std::size_t one)
      : options_(options), streams_(streams), one_(one), bytes_(model.state_bytes()) {
    if (options.state_in.empty()) return;
    const std::string saved = read_file(options.state_in, "stream");
    naming(options.state_in, [&] { streams.restore(one, std::as_bytes(std::span(saved))); });
  }

  // On disk before the answers get their name.
  void stage() {
    if (options_.state_out.empty()) return;
    streams_.save(one_, bytes_);
    file_.emplace(options_.state_out, std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size()),
                  "stream");
  }
  void commit() {
    if (file_) file_->commit();
  }

 private:
  const StreamOptions& options_;
  stream::Streams<T>& streams_;
  std::size_t one_;
  std::vector<std::byte> bytes_;
  std::optional<StagedFile> file_;
};

SampleForm answer_form(const StreamOptions& options) {
  const SampleForm from = sample_form(options.inputs[0], options.from, "--from");
  if (options.to.empty() && options.output == standard_stream) return from == SampleForm::wav ? SampleForm::raw : from;
  return sample_form(options.output, options.to, "--to");
}

void finish(const StreamOptions& options, SampleSink& sink, std::uint64_t answers, std::size_t outputs) {
  if (sink.clipped() > 0)
    warn(options, "stream", fmt::format("{} samples were clipped at full scale; --to raw keeps them", sink.clipped()));
  if (options.output != standard_stream)
    say(options, fmt::format("{}: {} answer{} of {} number{}", options.output, answers, answers == 1 ? "" : "s",
                             outputs, outputs == 1 ? "" : "s"));
}

template <class T>
std::unique_ptr<SampleSink> open_answers(const StreamOptions& options, std::size_t outputs,
                                         std::optional<std::uint64_t> length, const WavFormat* sound) {
  return open_sink(
      {options.output, answer_form(options), outputs, sizeof(T) == 4 ? DataType::f32 : DataType::f64, length, sound});
}

// Answers that are numbers; those before one that is not come first.
template <class T>
void write(SampleSink& sink, std::span<const T> answers, std::size_t outputs, std::uint64_t before = 0) {
  const auto bad = std::find_if(answers.begin(), answers.end(), [](T value) { return !std::isfinite(value); });
  const auto good = static_cast<std::size_t>(bad - answers.begin()) / outputs;
  sink.write(std::vector<double>(answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(good * outputs)));
  if (bad != answers.end())
    fail(fmt::format("answer {} is not finite: the samples are too large for the model in {}", before + good,
                     sizeof(T) == 4 ? "f32" : "f64"));
}

// T: of the arithmetic. In: T, or a token.
template <class T, class In>
void stream_samples(const StreamOptions& options, const stream::Model<T>& model, std::vector<Input<In>>& inputs,
                    std::size_t block) {
  const std::size_t outputs = model.outputs();
  stream::Streams<T> streams(model, 1);
  const std::size_t one = streams.join();
  States<T> states(options, streams, model, one);
  const auto sink = open_answers<T>(options, outputs, length_of(inputs), sound_of(inputs));
  std::vector<T> answers(block * outputs);
  std::uint64_t count = 0;
  for (auto& input : inputs)
    for (Signal<const In> samples = input.next(); samples.length > 0; samples = input.next()) {
      streams.process({&one, 1}, samples, channels_last(answers.data(), 1, samples.length, outputs));
      write<T>(*sink, std::span(answers).first(samples.length * outputs), outputs, count);
      count += samples.length;
    }
  if (!options.state_out.empty() && !streams.finite(one))
    fail("the state is not finite: the last samples are too large for the model");
  sink->flush();
  states.stage();
  sink->commit();
  states.commit();
  finish(options, *sink, count, outputs);
}

// Two sequences and one answer at their end.
template <class T, class In>
void compare_pair(const StreamOptions& options, const stream::Model<T>& model, std::vector<Input<In>>& inputs) {
  stream::Streams<T> streams(model, 2);
  for (auto& input : inputs) {
    const std::size_t stream = streams.join();
    Signal<const In> samples = input.next();
    if (samples.length == 0) fail(fmt::format("{} has no samples: nothing can be compared with it", input.name()));
    for (; samples.length > 0; samples = input.next()) streams.prefill({&stream, 1}, samples);
  }
  std::vector<T> answer(model.outputs());
  streams.answer_pair(0, 1, answer);
  const auto sink = open_answers<T>(options, answer.size(), 1, nullptr);
  write<T>(*sink, answer, answer.size());
  sink->flush();
  sink->commit();
  finish(options, *sink, 1, answer.size());
}

// What sees whole sequences is given them whole: all inputs one after the other, or the two of a pair.
template <class T, class In>
void answer_whole(const StreamOptions& options, const stream::Model<T>& model, std::vector<Input<In>>& inputs) {
  const Architecture::Decoder decoder = model.architecture().decoder;
  const std::size_t batch = decoder == Architecture::Decoder::pair ? 2 : 1;
  std::vector<In> all;
  std::vector<std::size_t> lengths;
  for (auto& input : inputs) {
    lengths.push_back(0);
    for (Signal<const In> samples = input.next(); samples.length > 0; samples = input.next()) {
      all.insert(all.end(), samples.data, samples.data + samples.length * model.inputs());
      lengths.back() += samples.length;
    }
  }
  if (all.empty()) fail(fmt::format("{} sees whole sequences, and there are no samples", options.filter));
  if (batch == 2 && lengths[0] != lengths[1])
    fail(fmt::format("{} compares sequences of one length, not of {} and {}", options.filter, lengths[0], lengths[1]));
  const std::size_t length = all.size() / model.inputs() / batch;
  const bool once = decoder == Architecture::Decoder::pool || decoder == Architecture::Decoder::pair;
  const std::size_t rows = once ? 1 : length;
  const auto sink = open_answers<T>(options, model.outputs(), rows, once ? nullptr : sound_of(inputs));
  std::vector<T> answers(rows * model.outputs());
  stream::Sequences<T>(model, length)
      .process(channels_last<const In>(all.data(), batch, length, model.inputs()),
               channels_last(answers.data(), 1, rows, model.outputs()));
  write<T>(*sink, answers, model.outputs());
  sink->flush();
  sink->commit();
  finish(options, *sink, rows, model.outputs());
}

template <class T, class In>
void stream_model(const StreamOptions& options, const stream::Model<T>& model) {
  constexpr std::size_t block_numbers = std::size_t{1} << 16;
  const Architecture& a = model.architecture();
  const bool pair = a.decoder == Architecture::Decoder::pair;
  if (pair && options.inputs.size() != 2)
    fail(fmt::format("{} compares two sequences: give two inputs, not {}", options.filter, options.inputs.size()));
  if ((pair || a.bidirectional) && (!options.state_in.empty() || !options.state_out.empty()))
    fail(fmt::format("{} {}: it has no state of a single stream", options.filter,
                     pair ? "compares two sequences" : "is bidirectional and sees whole sequences"));

  const std::size_t block = std::max<std::size_t>(block_numbers / std::max(model.inputs(), model.outputs()), 1);
  std::vector<Input<In>> inputs;
  for (const std::string& path : options.inputs)
    inputs.emplace_back(path, open_source(path, sample_form(path, options.from, "--from"), model.inputs()),
                        model.inputs(), a.vocabulary, block);
  if (a.bidirectional) return answer_whole(options, model, inputs);
  pair ? compare_pair(options, model, inputs) : stream_samples(options, model, inputs, block);
}

template <class T>
void run_as(const StreamOptions& options, const ModelFile& file) {
  const stream::Model<T> model = naming(options.filter, [&] { return stream::Model<T>(file); });
  if (file.architecture.vocabulary == 0) return stream_model<T, T>(options, model);
  for (const std::string& path : options.inputs)
    if (sample_form(path, options.from, "--from") == SampleForm::wav)
      fail(fmt::format("{} is a sound, and {} takes tokens", shown(path), options.filter));
  stream_model<T, std::int64_t>(options, model);
}

void run(const StreamOptions& options) {
  // A closed pipe is then an error of write(), which says so.
  std::signal(SIGPIPE, SIG_IGN);
  if (std::count(options.inputs.begin(), options.inputs.end(), standard_stream) > 1)
    fail("standard input can be read once");
  const bool writes_file = options.output != standard_stream, writes_state = !options.state_out.empty();
  if (writes_file) check_result(options, options.output, "stream");
  if (writes_state) check_result(options, options.state_out, "stream");
  if (writes_file && writes_state) require_two_files(options.output, options.state_out, "the answers and the state");
  const ModelFile file = read_model(options.filter);
  file.precision == DataType::f32 ? run_as<float>(options, file) : run_as<double>(options, file);
}

}  // namespace

void add_stream(CLI::App& app) {
  auto options = std::make_shared<StreamOptions>();
  CLI::App& command = *app.add_subcommand("stream", "Run a model file over samples or tokens as they come");
  add_common(command, *options,
             "  rtf export runs/copying -o model.safetensors\n"
             "  printf '3\\n1\\n4\\n' | rtf stream model.safetensors\n"
             "  # cut in two, with the state between: the same bits\n"
             "  printf '3\\n1\\n' | rtf stream model.safetensors --state-out state\n"
             "  printf '4\\n' | rtf stream model.safetensors --state-in state\n"
             "An answer comes for every sample, and is written before the next is waited for; a bidirectional model\n"
             "sees all samples first. text: a sample a line,\n"
             "numbers between blanks or commas; raw: float32, little-endian; npy: (length, numbers of a sample);\n"
             "wav: a channel a number, PCM of 16, 24 or 32 bits or float of 32 or 64. Several inputs are one stream, "
             "one after the other.",
             "MODEL", "model file, written by `rtf export`");
  command.add_option("INPUT", options->inputs, "files, or - for standard input (the default)")->type_name("");
  command.add_option("-o,--output", options->output, "file for the answers, instead of standard output")
      ->type_name("FILE");
  const auto forms = CLI::IsMember({"text", "raw", "npy", "wav"});
  command
      .add_option("--from", options->from,
                  "text, raw, npy or wav: the format of the inputs (default: by the suffix txt, csv, raw, f32, npy or "
                  "wav; standard input is text)")
      ->check(forms)
      ->type_name("FORMAT");
  command
      .add_option("--to", options->to,
                  "the format of the answers (default: by the suffix; on standard output that of the input, raw for "
                  "wav)")
      ->check(forms)
      ->type_name("FORMAT");
  command.add_option("--state-in", options->state_in, "go on from where the run that wrote this file stopped")
      ->type_name("FILE");
  command.add_option("--state-out", options->state_out, "file for the state after the last sample")->type_name("FILE");
  command.callback([options] { run(*options); });
}

}  // namespace rtf::cli
