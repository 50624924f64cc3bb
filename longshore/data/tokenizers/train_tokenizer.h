// Makes tokenizers of text.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace longshore::data {

// Puts the next text, valid UTF-8, into its argument; false at the end.
using NextText = std::function<bool(std::string&)>;

// The text of a tokenizer.json: byte-level BPE behind Llama 3's expression, with `vocab_size`
// tokens. The last two are <|begin_of_text|>, with which texts begin, and <|end_of_text|>.
//
// Both use all cores, and what they make depends on the texts alone, not on the number of threads.
// Throw a DataError where the texts have not enough to learn that many tokens from.
std::string train_byte_level(const NextText& next, size_t vocab_size);

// The bytes of a sentencepiece model: BPE with byte fallback and without normalisation, as Llama 2
// has it. Learns from each line of a text by itself. All texts are held in memory.
std::string train_sentencepiece(const NextText& next, size_t vocab_size);

}  // namespace longshore::data
