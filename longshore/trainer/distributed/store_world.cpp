#include "longshore/trainer/distributed/store_world.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/integer.h"
#include "longshore/base/late_notice.h"
#include "longshore/base/patient_output.h"
#include "longshore/base/printable.h"

namespace longshore::trainer {
namespace {

using Bytes = std::vector<uint8_t>;
using Clock = std::chrono::steady_clock;

// Others may be tokenizing a corpus; whoever has died is noticed by its silence.
constexpr std::chrono::hours kPatience{24 * 7};

// The store drops whoever sets more than 8 MiB at once.
constexpr size_t kMaxBytes = size_t{4} << 20;

bool is_loopback(const addrinfo& address) {
  if (address.ai_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr.s_addr) >> 24 ==
           127;
  return address.ai_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr);
}

// A socket that listens at the address of the first process, and nowhere else: whoever reaches the
// store can change what it holds. None where others must come another way: where the address is no
// machine's own, as in front of containers, or where it is a name that means this machine to itself
// alone.
std::optional<int> listening_socket(const StoreLaunch& launch) {
  const std::string& host = launch.launch.master_address;
  const std::string port = std::to_string(launch.launch.master_port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  auto listen_everywhere = [&](const std::string& why) -> std::optional<int> {
    print_error(fmt::format("torchrun's store listens on all addresses of this machine: {} {}\n",
                            excerpt(host), why));
    return std::nullopt;
  };
  if (const int fault = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); fault != 0)
    return listen_everywhere(fmt::format("is not known here ({})", gai_strerror(fault)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (launch.has_other_nodes && is_loopback(*one)) continue;
    const int number = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    if (number < 0) continue;
    constexpr int kOn = 1;
    setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn);
    if (bind(number, one->ai_addr, one->ai_addrlen) == 0 && listen(number, SOMAXCONN) == 0)
      return number;
    const int refusal = errno;
    close(number);
    if (refusal != EADDRNOTAVAIL)
      throw Error(fmt::format("torchrun's store, listening at {}, port {}: {}", excerpt(host), port,
                              std::strerror(refusal)));
  }
  return listen_everywhere("is none by which other nodes reach it");
}

// c10d logs each message of a stranger with a trace of its calls, and each host that does not
// answer with its name as it is. What comes of that is an error here.
void leave_out_logs() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  });
}

std::string waiting_text(const Launch& launch) {
  return fmt::format("rank {} of {} waits for the others at {}, port {}", launch.rank,
                     launch.world_size, excerpt(launch.master_address), launch.master_port);
}

// One connection, for one thread at a time: a store answers a call before it takes the next. It
// waits for others for as long as the launch has patience, until it is told to wait_long().
class Connection {
 public:
  Connection(const StoreLaunch& launch, bool is_server) : prefix_(launch.prefix) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(launch.launch.master_port);
    options.isServer = is_server;
    if (is_server) options.masterListenFd = listening_socket(launch);
    options.waitWorkers = false;
    options.timeout = launch.patience;
    calling("connecting to " + excerpt(launch.launch.master_address), [&] {
      store_ = c10::make_intrusive<c10d::TCPStore>(launch.launch.master_address, options);
    });
  }

  void wait_long() { store_->setTimeout(kPatience); }

  void set(const std::string& key, const Bytes& value) {
    calling(key, [&] { store_->set(prefix_ + key, value); });
  }
  // Waits until they are there.
  std::vector<Bytes> get(std::vector<std::string> keys) {
    for (std::string& key : keys) key = prefix_ + key;
    std::vector<Bytes> values;
    calling(keys.front(), [&] { values = store_->multiGet(keys); });
    return values;
  }
  void remove(const std::string& key) {
    calling(key, [&] { store_->deleteKey(prefix_ + key); });
  }

 private:
  template <class Call>
  static void calling(const std::string& what, const Call& call) {
    try {
      call();
    } catch (const std::exception& error) {  // c10's text goes on with a trace of calls
      const std::string_view text = error.what();
      throw Error("torchrun's store, " + what + ": " +
                  library_message(text.substr(0, text.find('\n'))));
    }
  }

  std::string prefix_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

// Says that this process is alive, and listens for the others and for the store.
class Pulse {
 public:
  Pulse(Connection connection, int64_t rank, int64_t size, std::chrono::seconds silence)
      : connection_(std::move(connection)), rank_(rank), silence_(silence), seen_(size) {
    beat();
  }
  ~Pulse() { stop(); }

  void start() {
    thread_ = std::thread([this] { watch(); });
  }

  // The others are not to miss it.
  void leave() {
    stop();
    connection_.set(key(rank_), kLeft);
  }

 private:
  struct Seen {
    Bytes value;
    Clock::time_point at = Clock::now();
  };
  static inline const Bytes kLeft{};

  static std::string key(int64_t rank) { return fmt::format("pulse/{}", rank); }

  void beat() {
    const std::string value = std::to_string(++beats_);
    connection_.set(key(rank_), {value.begin(), value.end()});
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    ending_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  void watch() {
    std::vector<std::string> keys;
    for (size_t rank = 0; rank < seen_.size(); ++rank) keys.push_back(key(rank));
    std::unique_lock lock(mutex_);
    while (!ending_.wait_for(lock, std::chrono::milliseconds(silence_) / 5,
                             [this] { return is_ending_; }))
      try {
        // A store whose host stands still answers no call, and leaves some waiting for ever.
        auto call = std::async(std::launch::async, [&] {
          beat();
          listen(keys);
        });
        if (call.wait_for(silence_) == std::future_status::timeout)
          end(fmt::format("torchrun's store has not answered for {} s", silence_.count()));
        call.get();
      } catch (const std::exception& error) {
        end(error.what());
      }
  }

  void listen(const std::vector<std::string>& keys) {
    const std::vector<Bytes> values = connection_.get(keys);
    for (size_t rank = 0; rank < values.size(); ++rank) {
      if (values[rank] != seen_[rank].value) seen_[rank] = {values[rank]};
      if (values[rank] != kLeft && Clock::now() - seen_[rank].at > silence_)
        end(fmt::format("rank {} has not been heard of for {} s", rank, silence_.count()));
    }
  }

  [[noreturn]] void end(const std::string& why) const {
    print_error(fmt::format("rank {} ends: {}\n", rank_, why), std::chrono::seconds(1));
    std::_Exit(1);
  }

  Connection connection_;
  int64_t rank_, beats_ = 0;
  std::chrono::seconds silence_;
  std::vector<Seen> seen_;
  bool is_ending_ = false;
  std::mutex mutex_;
  std::condition_variable ending_;
  std::thread thread_;
};

class StoreWorld : public World {
 public:
  explicit StoreWorld(const StoreLaunch& launch)
      : waiting_(std::in_place, waiting_text(launch.launch), std::chrono::seconds(10)),
        rank_(launch.launch.rank),
        size_(launch.launch.world_size),
        all_(launch, rank_ == 0 && !launch.agent_has_store),
        pairs_(launch, false) {
    pulse_.emplace(Connection(launch, false), rank_, size_, launch.silence);
    try {
      gather("");  // whoever is late to start is not silent yet
    } catch (const Error& error) {
      throw Error(fmt::format("not all {} processes came within {} s; {}", size_,
                              launch.patience.count(), error.what()));
    }
    waiting_.reset();
    all_.wait_long();
    pairs_.wait_long();
    pulse_->start();
  }

  // The first may be the store's host, so it leaves last.
  ~StoreWorld() override {
    if (std::uncaught_exceptions() > 0) return;
    try {
      gather("");
      pulse_->leave();
      if (is_first())
        for (int64_t rank = 1; rank < size_; ++rank) all_.get({bye(rank)});
      else
        all_.set(bye(rank_), {});
    } catch (const Error&) {
      // The others ended in another way.
    }
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }

  std::vector<std::string> gather(const std::string& mine) override {
    const int64_t number = gathers_++;
    all_.set(gathered(number, rank_), {mine.begin(), mine.end()});
    std::vector<std::string> keys, texts;
    for (int64_t rank = 0; rank < size_; ++rank) keys.push_back(gathered(number, rank));
    for (const Bytes& value : all_.get(keys)) texts.emplace_back(value.begin(), value.end());
    // All are in this one, so all have done with the one before.
    if (number > 0) all_.remove(gathered(number - 1, rank_));
    return texts;
  }

  int64_t sum(int64_t mine) override {
    int64_t total = 0;
    for (const std::string& text : gather(std::to_string(mine))) {
      const std::optional<int64_t> part = integer<int64_t>(text);
      if (!part || __builtin_add_overflow(total, *part, &total))
        throw Error("the store: found " + std::to_string(text.size()) +
                    " bytes of another program, expected a number of one of the processes");
    }
    return total;
  }

  void send(int64_t to, std::span<const std::byte> bytes) override {
    for (; !bytes.empty(); bytes = bytes.subspan(size_of_next(bytes))) {
      const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
      pairs_.set(sent(rank_, to, sends_[to]++), {first, first + size_of_next(bytes)});
    }
  }

  void receive(int64_t from, std::span<std::byte> bytes) override {
    for (; !bytes.empty(); bytes = bytes.subspan(size_of_next(bytes))) {
      const std::string key = sent(from, rank_, receives_[from]++);
      const Bytes value = pairs_.get({key})[0];
      if (value.size() != size_of_next(bytes))
        throw Error(fmt::format("torchrun's store: {} bytes of rank {}, expected {}", value.size(),
                                from, size_of_next(bytes)));
      std::ranges::copy(std::as_bytes(std::span(value)), bytes.begin());
      pairs_.remove(key);
    }
  }

  std::shared_ptr<offload::Communicator> host_communicator(const offload::DeviceMesh&) override {
    throw InternalError("torchrun's store carries no tensors");
  }

 private:
  static std::string gathered(int64_t number, int64_t rank) {
    return fmt::format("gather/{}/{}", number, rank);
  }
  static std::string sent(int64_t from, int64_t to, int64_t number) {
    return fmt::format("send/{}/{}/{}", from, to, number);
  }
  static size_t size_of_next(std::span<const std::byte> rest) {
    return std::min(rest.size(), kMaxBytes);
  }
  static std::string bye(int64_t rank) { return fmt::format("bye/{}", rank); }

  std::optional<LateNotice> waiting_;
  int64_t rank_, size_;
  Connection all_, pairs_;
  int64_t gathers_ = 0;
  std::map<int64_t, int64_t> sends_, receives_;  // so far, by the other's rank
  std::optional<Pulse> pulse_;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Where the launcher does not say how many are here, an address that is this machine's to everybody
// says that all are.
bool has_other_nodes(const Launch& launch) {
  if (const auto here = integer<int64_t>(variable("LOCAL_WORLD_SIZE")))
    return *here < launch.world_size;
  const std::string& host = launch.master_address;
  return host != "localhost" && host != "::1" && !host.starts_with("127.");
}

}  // namespace

std::unique_ptr<World> connect_by_store(const Launch& launch) {
  const std::string attempt = variable("TORCHELASTIC_RESTART_COUNT");
  return connect_by_store(
      StoreLaunch{.launch = launch,
                  .agent_has_store = variable("TORCHELASTIC_USE_AGENT_STORE") == "True",
                  .has_other_nodes = has_other_nodes(launch),
                  .prefix = "/longshore/" + (attempt.empty() ? "0" : attempt) + "/"});
}

std::unique_ptr<World> connect_by_store(const StoreLaunch& launch) {
  leave_out_logs();
  return std::make_unique<StoreWorld>(launch);
}

}  // namespace longshore::trainer
