// A RunServer shows a run to browsers and to Prometheus over HTTP while it trains: read-only, and
// on this machine alone unless another address is given.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace longshore::trainer {

struct ServeAddress {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: any that is free
};

// "8000", "0.0.0.0:8000", "[::1]:8000". Throws ConfigError on anything else.
ServeAddress parse_serve_address(const std::string& text);

class RunServer {
 public:
  // Listens. Throws ConfigError where the address cannot be had.
  explicit RunServer(const ServeAddress& address);
  ~RunServer();
  RunServer(const RunServer&) = delete;
  RunServer& operator=(const RunServer&) = delete;

  // Answers from now on, on a thread of its own, with what the run writes into that folder:
  //   /          the page of the run, which renews itself
  //   /metrics   the newest number of each key of metrics.jsonl, as Prometheus reads them
  void show(const std::filesystem::path& folder);

  // "http://127.0.0.1:8000/"
  std::string url() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace longshore::trainer
