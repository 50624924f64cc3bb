// Several ranks of torchrun's in one process: a thread each, with a store of their own.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "longshore/trainer/distributed/store_world.h"

namespace longshore::trainer {

inline int64_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  close(socket);
  return ntohs(address.sin_port);
}

inline StoreLaunch store_launch(int64_t rank, int64_t size, int64_t port) {
  return {.launch = {.by = Launch::By::torchrun,
                     .rank = rank,
                     .world_size = size,
                     .local_rank = rank,
                     .master_address = "127.0.0.1",
                     .master_port = port},
          .prefix = "/test/"};
}

inline void on_ranks(int64_t size, const std::function<void(World&)>& work) {
  const int64_t port = free_port();
  std::vector<std::jthread> ranks;
  for (int64_t rank = 0; rank < size; ++rank)
    ranks.emplace_back([=, &work] {
      auto world = connect_by_store(store_launch(rank, size, port));
      work(*world);
    });
}

}  // namespace longshore::trainer
