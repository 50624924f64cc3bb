#include "longshore/data/files/file_mapping.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/file_descriptor.h"
#include "longshore/base/printable.h"

namespace longshore::data {
namespace {

// What is mapped, for a signal handler to read.
struct Mapped {
  std::atomic<const std::byte*> begin = nullptr;  // nullptr: the place is free
  std::atomic<size_t> size = 0;
  std::atomic<char*> path = nullptr;
};
// More files than a model has; those beyond are mapped all the same, without their message.
constexpr size_t kMostMapped = 4096;
std::array<Mapped, kMostMapped> mapped_files;
std::string program_name;  // set before the handler

void say(const char* text) {
  [[maybe_unused]] ssize_t ignored = write(STDERR_FILENO, text, std::strlen(text));
}

// Calls only what a handler may call.
void end_for_shortened_file(int, siginfo_t* signal, void*) {
  const auto* at = static_cast<const std::byte*>(signal->si_addr);
  for (const Mapped& one : mapped_files) {
    const std::byte* begin = one.begin;
    if (begin == nullptr || at < begin || at >= begin + one.size) continue;
    const char* const message[] = {program_name.c_str(), ": ", one.path.load(),
                                   ": became shorter, or its disk failed, while it was read\n"};
    for (const char* text : message) say(text);
    _exit(1);
  }
  std::signal(SIGBUS, SIG_DFL);  // the instruction runs again, and ends the process
}

void note_mapping(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  static std::once_flag once;
  std::call_once(once, [] {
    program_name = excerpt(program_invocation_short_name);
    struct sigaction action = {};
    action.sa_sigaction = end_for_shortened_file;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, nullptr);
  });
  const std::string shown = path_text(path);
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  for (Mapped& one : mapped_files) {
    if (one.begin != nullptr) continue;
    std::free(one.path.exchange(strdup(shown.c_str())));
    one.size = bytes.size();
    one.begin = bytes.data();
    return;
  }
}

void forget_mapping(std::span<const std::byte> bytes) {
  for (Mapped& one : mapped_files)
    if (one.begin == bytes.data()) one.begin = nullptr;
}

}  // namespace

FileMapping::FileMapping(const std::filesystem::path& path, Access access) {
  // Without O_NONBLOCK a named pipe would hang here.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  auto fail = [&](const std::string& what) {
    throw DataError(path_text(path) + ": " + what + ": " + std::strerror(errno));
  };
  if (!file.is_open()) fail("cannot open");
  struct stat status;
  if (fstat(file.number(), &status) != 0) fail("cannot look at it");
  if (!S_ISREG(status.st_mode))
    throw DataError(path_text(path) + ": expected a regular file, found " +
                    (S_ISDIR(status.st_mode) ? "a folder" : "something else"));
  const auto size = static_cast<size_t>(status.st_size);
  if (size > 0) {
    void* mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
    if (mapped == MAP_FAILED) fail("cannot map");
    if (access == Access::from_front_to_back) madvise(mapped, size, MADV_SEQUENTIAL);
    bytes_ = {static_cast<const std::byte*>(mapped), size};
    note_mapping(path, bytes_);
  }
}

FileMapping::~FileMapping() {
  if (bytes_.empty()) return;
  forget_mapping(bytes_);
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

FileMapping::FileMapping(FileMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

std::string_view FileMapping::text() const {
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

}  // namespace longshore::data
