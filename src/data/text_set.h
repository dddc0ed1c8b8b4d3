// Labelled texts as the public files hold them, and how they become tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rtf::data {

struct TextSample {
  std::size_t label = 0;
  std::array<std::string, 2> documents;  // UTF-8; the second is for pairs
};

struct TextSet {
  std::string name;
  std::size_t documents = 1;       // of a sample
  std::size_t classes = 2;         // labels are below it
  bool characters = true;          // tokens are characters; false: words between blanks
  std::size_t longest = 0;         // tokens of a document, the end mark included: what is longer is cut
  std::uint64_t occurrences = 1;   // in the training texts as they are cut, that make a token one of the vocabulary
  std::vector<std::string> files;  // that it is read from
  // All samples of a split (0 train, 1 val, 2 test), always in the same order.
  std::function<void(std::size_t split, const std::function<void(TextSample&&)>& sample)> read;
};

// basic_{train,val,test}.tsv: Source and Target under a header. A token that ListOps does not have is refused.
TextSet listops_set(const std::string& path);
// train/{pos,neg}/*.txt and test/...: a folder with them, or with aclImdb/, or the archive of it; no val. In the order
// of the file names, the positive ones first.
TextSet imdb_set(const std::string& path);
// new_aan_pairs.{train,eval,test}.tsv: label, two names, two texts; quotes are characters like any other.
TextSet aan_set(const std::string& path);

}  // namespace rtf::data
