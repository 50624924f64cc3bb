// The error types every layer throws. A message says where, what was found, what was expected and,
// where there is one, the nearest valid choice; see base/nearest.h for the last.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace longshore {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The user's to fix: a config key, a command line, a policy that does not suit the model. Exit 2.
struct ConfigError : Error {
  using Error::Error;
};

// About a config key, from where it is not known who set it. The message begins with the key.
struct KeyError : ConfigError {
  KeyError(std::string key, const std::string& fault)
      : ConfigError(key + ": " + fault), key(std::move(key)) {}
  std::string key;
};

// A file of data, a tokenizer or weights that is not what it should be. Exit 1.
struct DataError : Error {
  using Error::Error;
};

// No plan fits: the message gives what the plan needs, what is there and what would make it
// smaller. Exit 2, since only the config can change it.
struct PlanError : Error {
  using Error::Error;
};

// A bug of ours.
struct InternalError : Error {
  using Error::Error;
};

}  // namespace longshore
