// The error types every layer throws. A message says where, what was found, what was expected and,
// where there is one, the nearest valid choice; see longshore/base/nearest.h for the last.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace longshore {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The user has to correct a config key or a command line, or choose a policy that suits the model.
// Exit 2.
struct ConfigError : Error {
  using Error::Error;
};

// A fault of a config key, thrown where it is not known who set the key. The message begins with
// the key. Exit 2.
struct KeyError : ConfigError {
  KeyError(std::string key, const std::string& fault)
      : ConfigError(key + ": " + fault), key(std::move(key)) {}
  std::string key;
};

// A file that is read (data, a tokenizer, weights, a checkpoint) is missing or is not what it
// should be. Exit 1.
struct DataError : Error {
  using Error::Error;
};

// The file system refuses to make, write, rename or remove a file or folder, as a full disk does.
// Exit 1.
struct FileError : Error {
  using Error::Error;
};

// No plan fits, which is known before memory is taken: the message gives what the plan needs, what
// is there and what would make it smaller. Exit 2, since only the config can change it.
struct PlanError : Error {
  using Error::Error;
};

// Memory that was asked for cannot be had: the message gives its kind, how much was asked for and
// how much is available. Exit 2, since the config can ask for less.
struct OutOfMemoryError : Error {
  using Error::Error;
};

// A C++ caller asks for what the called interface does not offer: an unknown parameter's name, a
// value in the wrong kind of memory. No config or file leads to it. Exit 1.
struct UsageError : Error {
  using Error::Error;
};

// A bug of ours. Exit 1.
struct InternalError : Error {
  using Error::Error;
};

}  // namespace longshore
