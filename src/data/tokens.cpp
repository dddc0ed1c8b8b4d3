#include "data/tokens.h"

#include <fmt/format.h>

#include <map>

#include "core/progress_bar.h"
#include "data/characters.h"
#include "data/record_file.h"
#include "data/vocabulary.h"
#include "rtf/error.h"
#include "rtf/executor.h"

namespace rtf::data {
namespace {

constexpr std::size_t all_characters = 0x110000;
constexpr std::size_t block = 2048;  // samples in memory at once

// visit(token) for every token of a document as it is cut: a character, or the text of a word.
template <class F>
void each_token(const TextSet& set, const std::string& text, F&& visit) {
  const std::size_t most = set.longest - 1;  // the end mark follows
  if (set.characters) {
    for (const char32_t character : characters(text, most)) visit(character);
    return;
  }
  constexpr const char* blanks = " \t\r\n";
  std::size_t count = 0;
  for (std::size_t at = text.find_first_not_of(blanks); at != std::string::npos && count < most; ++count) {
    const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
    visit(std::string_view(text).substr(at, end - at));
    at = text.find_first_not_of(blanks, end);
  }
}

class Counts {
 public:
  void operator()(char32_t character) {
    if (characters_.empty()) characters_.resize(all_characters);
    ++characters_[character];
  }
  void operator()(std::string_view word) {
    const auto found = words_.find(word);
    ++(found == words_.end() ? words_.emplace(word, 0).first : found)->second;
  }
  void add_to(TokenCounts& counts) const {
    for (std::size_t c = 0; c < characters_.size(); ++c) {
      if (characters_[c] > 0) counts[utf8(static_cast<char32_t>(c))] += characters_[c];
    }
    for (const auto& [word, count] : words_) counts[word] += count;
  }

 private:
  std::vector<std::uint64_t> characters_;
  std::map<std::string, std::uint64_t, std::less<>> words_;
};

class Numbers {
 public:
  Numbers(const std::vector<std::string>& vocabulary, bool of_characters)
      : characters_(of_characters ? all_characters : 0, unknown_token) {
    for (std::size_t i = end_token + 1; i < vocabulary.size(); ++i) {
      const auto number = static_cast<std::uint16_t>(i);
      if (of_characters) {
        characters_[characters(vocabulary[i])[0]] = number;
      } else {
        words_[vocabulary[i]] = number;
      }
    }
  }
  std::uint16_t operator()(char32_t character) const { return characters_[character]; }
  std::uint16_t operator()(std::string_view word) const {
    const auto found = words_.find(word);
    return found == words_.end() ? unknown_token : found->second;
  }

 private:
  std::vector<std::uint16_t> characters_;
  std::map<std::string, std::uint16_t, std::less<>> words_;
};

// use(samples) for the samples of a split, so many at a time.
template <class F>
void each_block(const TextSet& set, std::size_t split, F&& use) {
  std::vector<TextSample> samples;
  set.read(split, [&](TextSample&& sample) {
    samples.push_back(std::move(sample));
    if (samples.size() < block) return;
    use(samples);
    samples.clear();
  });
  if (!samples.empty()) use(samples);
}

}  // namespace

void write_tokens(const TextSet& set, const std::string& path, const std::string& vocabulary_path,
                  std::uint64_t fingerprint) {
  RecordInfo info;
  info.kind = RecordKind::tokens;
  info.documents = set.documents;
  info.classes = set.classes;
  info.fingerprint = fingerprint;
  {
    std::vector<Counts> counts(default_executor().workers());
    ProgressBar bar(false, fmt::format("reading {} ", set.name));
    for (std::size_t split = 0; split < 3; ++split) {
      each_block(set, split, [&](const std::vector<TextSample>& samples) {
        info.counts[split] += samples.size();
        bar.draw(info.samples(), 0);
        if (split != 0) return;
        parallel_for(default_executor(), samples.size(), [&](std::size_t i, std::size_t worker) {
          for (std::size_t d = 0; d < set.documents; ++d) each_token(set, samples[i].documents[d], counts[worker]);
        });
      });
    }
    TokenCounts sum;
    for (const Counts& some : counts) some.add_to(sum);
    info.vocabulary = make_vocabulary(sum, set.occurrences);
  }
  if (info.vocabulary.size() > 65536) {
    throw Error(ErrorCode::unsupported, "prepare_data",
                fmt::format("{}: {} tokens; there may be 65536", set.files.at(0), info.vocabulary.size()));
  }

  const Numbers numbers(info.vocabulary, set.characters);
  RecordWriter writer(path, info);
  ProgressBar bar(false, fmt::format("preparing {} ", set.name));
  std::size_t done = 0;
  for (std::size_t split = 0; split < 3; ++split) {
    each_block(set, split, [&](const std::vector<TextSample>& samples) {
      std::vector<std::array<std::vector<std::uint16_t>, 2>> tokens(samples.size());
      parallel_for(default_executor(), samples.size(), [&](std::size_t i, std::size_t) {
        for (std::size_t d = 0; d < set.documents; ++d) {
          each_token(set, samples[i].documents[d], [&](auto token) { tokens[i][d].push_back(numbers(token)); });
          tokens[i][d].push_back(end_token);
        }
      });
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const std::span<const std::uint16_t> documents[] = {tokens[i][0], tokens[i][1]};
        writer.add_tokens(std::span(documents).first(set.documents), samples[i].label);
      }
      bar.draw(done += samples.size(), info.samples());
    });
  }
  StagedFile(vocabulary_path, vocabulary_text(info.vocabulary), "prepare_data").commit();
  writer.commit();
}

}  // namespace rtf::data
