// How fast a tokenizer encodes on one core. For each line of input it encodes all documents once
// and prints the seconds that took and the number of tokens; tests/bench/tokenizers.py sends the
// lines, in turns with another library.
//
// usage: bench_tokenizers TOKENIZER DOCUMENTS     DOCUMENTS: a file, a zero byte after each
// document
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "longshore/base/exit_code.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace {

void run(const std::string& tokenizer_path, const std::string& documents_path) {
  const longshore::data::Tokenizer tokenizer(tokenizer_path);
  std::vector<std::string> documents;
  std::ifstream file(documents_path, std::ios::binary);
  for (std::string document; std::getline(file, document, '\0');) documents.push_back(document);
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    size_t tokens = 0;
    for (const std::string& document : documents) tokens += tokenizer.encode(document).size();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << fmt::format("{:.6f} {}", seconds.count(), tokens) << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: bench_tokenizers TOKENIZER DOCUMENTS\n";
    return 2;
  }
  return longshore::exit_code_of("bench_tokenizers", [&] { run(argv[1], argv[2]); });
}
