// Names tokenizer files that Longshore does not read as what they are, and says what to take.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace longshore::data {

// What a file is that is neither a sentencepiece model nor JSON; "" where that is not known.
std::string other_tokenizer(const std::filesystem::path& path, std::string_view bytes);

// What a folder has in place of a tokenizer.json and a tokenizer.model.
std::string other_tokenizer_in(const std::filesystem::path& folder);

// Of JSON, by what it holds.
inline constexpr const char* kTekkenRefusal =
    "found a tekken.json of Mistral's own format, expected the tokenizer.json that the model has "
    "in Hugging Face's format";
inline constexpr const char* kVocabularyRefusal =
    "found a vocab.json, which is half of a tokenizer, expected the tokenizer.json that "
    "transformers makes of it and merges.txt: "
    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";

}  // namespace longshore::data
