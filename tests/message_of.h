// message_of() gives the message of an error that is thrown, for tests of error messages.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace longshore {

// The message of the `Error` that `run` throws; "" and a failed test when it throws none.
template <typename Error, typename Run>
std::string message_of(Run run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing thrown";
  return "";
}

}  // namespace longshore
