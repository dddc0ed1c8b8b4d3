// Data sets made ready once: read, turned into tokens or pixels, and kept in one memory-mapped file.
#pragma once

#include <string>

#include "data/image_set.h"
#include "data/record_file.h"
#include "data/text_set.h"

namespace rtf::data {

// Where prepared data go when nobody says: the folder `prepared` beside the data of `path`, or the user's cache folder
// where that one is read-only.
std::string cache_folder(const std::string& path);

// The prepared form of a set, from the folder `cache` when it lies there, else made and put there. It is made anew, and
// a line on standard error says why, when the file is damaged or truncated, or when the set's files have other sizes or
// times than those it was made from: contents would take as long to compare as to prepare. Beside it lies its
// vocabulary as text. Files get their names when they are whole, so that several processes may prepare one set at once.
RecordFile prepared(const TextSet& set, const std::string& cache);
RecordFile prepared(const ImageSet& set, const std::string& cache);

}  // namespace rtf::data
