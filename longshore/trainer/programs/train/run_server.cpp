#include "longshore/trainer/programs/train/run_server.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <event2/thread.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/integer.h"
#include "longshore/base/patient_output.h"
#include "longshore/base/printable.h"
#include "longshore/trainer/report/run_page.h"

namespace longshore::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFresh(2);  // how long a page is not made anew
constexpr int kMostWaiting = 30;           // seconds for a client that is slow
constexpr int kMostHeaders = 16384, kMostBody = 1024;
constexpr int kReadMethods = EVHTTP_REQ_GET | EVHTTP_REQ_HEAD;
constexpr int kAllMethods = kReadMethods | EVHTTP_REQ_POST | EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                            EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT |
                            EVHTTP_REQ_PATCH;
constexpr size_t kMostConnections = 64;               // the others wait until one of them ends
constexpr timeval kPause{.tv_sec = 1, .tv_usec = 0};  // before others are looked at again

template <class T, void (*kFree)(T*)>
struct Freed {
  void operator()(T* one) const { kFree(one); }
};

// The connections of a server that listens: no more than kMostConnections, since training needs
// files, too. libevent says when one begins. One that has ended is known by its callbacks, which
// are taken from it then; a reference keeps it, and its file, there until that is seen.
class Connections {
 public:
  explicit Connections(event_base* base)
      : base_(base),
        later_(event_new(
            base, -1, 0, [](evutil_socket_t, short, void* self) { of(self).look_again(); }, this)) {
  }
  ~Connections() {
    for (bufferevent* one : alive_) bufferevent_decref(one);
  }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  void limit(evhttp* http, evconnlistener* listener) {
    listener_ = listener;
    evhttp_set_bevcb(
        http, [](event_base*, void* self) { return of(self).begin(); }, this);
    // Where there is no file for one, libevent would ask again at once.
    evconnlistener_set_error_cb(listener, [](evconnlistener* full, void*) {
      evconnlistener_disable(full);
      event_base_once(
          evconnlistener_get_base(full), -1, EV_TIMEOUT,
          [](evutil_socket_t, short, void* again) {
            evconnlistener_enable(static_cast<evconnlistener*>(again));
          },
          full, &kPause);
    });
  }

 private:
  static Connections& of(void* self) { return *static_cast<Connections*>(self); }

  static bool has_ended(bufferevent* one) {
    bufferevent_data_cb read = nullptr, write = nullptr;
    bufferevent_event_cb event = nullptr;
    bufferevent_getcb(one, &read, &write, &event, nullptr);
    return read == nullptr && write == nullptr && event == nullptr;
  }

  bufferevent* begin() {
    forget_ended();
    bufferevent* const one = bufferevent_socket_new(base_, -1, BEV_OPT_CLOSE_ON_FREE);
    if (one == nullptr) return nullptr;
    bufferevent_incref(one);
    alive_.push_back(one);
    if (alive_.size() >= kMostConnections) evconnlistener_disable(listener_);
    event_add(later_.get(), &kPause);
    return one;
  }

  void look_again() {
    forget_ended();
    if (alive_.size() < kMostConnections) evconnlistener_enable(listener_);
    if (!alive_.empty()) event_add(later_.get(), &kPause);
  }

  void forget_ended() {
    std::erase_if(alive_, [](bufferevent* one) {
      if (!has_ended(one)) return false;
      bufferevent_decref(one);
      return true;
    });
  }

  event_base* base_;
  evconnlistener* listener_ = nullptr;
  std::unique_ptr<event, Freed<event, event_free>> later_;
  std::vector<bufferevent*> alive_;  // those that have ended, too, until they are looked at
};

// 127.0.0.0/8, also as IPv6 writes it, and ::1.
bool is_loopback(const std::string& address) {
  in_addr v4;
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, address.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

// A page of another site, whose name leads here, is to read nothing: browsers say whom they ask.
bool is_local_name(const std::string& host) {
  std::string name =
      host.starts_with('[') ? host.substr(1, host.find(']') - 1) : host.substr(0, host.find(':'));
  if (name.ends_with('.')) name.pop_back();
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name == "localhost" || is_loopback(name);
}

std::string label_text(const std::string& text) {
  std::string escaped;
  for (char c : printable(text)) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string prometheus_number(double value) {
  return std::isnan(value)   ? "NaN"
         : std::isinf(value) ? (value > 0 ? "+Inf" : "-Inf")
                             : fmt::format("{:.17g}", value);
}

// The text format of Prometheus, version 0.0.4.
std::string prometheus_text(const RunRecords& run) {
  const std::string of_run = "run=\"" + label_text(run.name()) + "\"";
  std::string text = fmt::format(
      "# HELP longshore_steps_done Steps that are done.\n# TYPE longshore_steps_done counter\n"
      "longshore_steps_done{{{}}} {}\n",
      of_run, run.steps_done());
  std::string last;
  for (const auto& [key, numbers] : run.numbers()) {
    const size_t slash = key.find('/');
    std::string name = "longshore_" + key.substr(0, slash);
    for (char& c : name)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    if (name != last)
      text += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n", name,
                          key == kPauseSeconds ? "Between the newest step and the one before."
                                               : "The newest " + printable(key.substr(0, slash)) +
                                                     " of metrics.jsonl.");
    last = name;
    const std::string part =
        slash == std::string::npos ? "" : ",set=\"" + label_text(key.substr(slash + 1)) + "\"";
    text += fmt::format("{}{{{}{}}} {}\n", name, of_run, part, prometheus_number(numbers.last.y));
  }
  return text;
}

}  // namespace

ServeAddress parse_serve_address(const std::string& text) {
  ServeAddress found;
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (colon != std::string::npos) found.address = text.substr(0, colon);
  if (found.address.starts_with('[') && found.address.ends_with(']'))
    found.address = found.address.substr(1, found.address.size() - 2);
  const std::optional<int> number = integer<int>(port);
  unsigned char parsed[sizeof(in6_addr)];
  const bool is_address = inet_pton(AF_INET, found.address.c_str(), parsed) == 1 ||
                          inet_pton(AF_INET6, found.address.c_str(), parsed) == 1;
  if (!number || *number < 0 || *number > 65535 || !is_address)
    throw ConfigError("--serve: found " + excerpt(text) +
                      ", expected a port, or an address and a port, such as 8000 or 0.0.0.0:8000");
  found.port = static_cast<uint16_t>(*number);
  return found;
}

class RunServer::Server {
 public:
  explicit Server(const ServeAddress& address)
      : is_local_(is_loopback(address.address)), address_(address.address) {
    evthread_use_pthreads();  // for what ends the loop
    event_set_log_callback([](int severity, const char* text) {
      if (severity >= EVENT_LOG_WARN) print_error("--serve: " + library_message(text) + "\n");
    });
    base_.reset(event_base_new());
    http_.reset(evhttp_new(base_.get()));
    if (!http_) throw Error("--serve: no memory for a server");
    evhttp_set_allowed_methods(http_.get(), kAllMethods);
    evhttp_set_max_headers_size(http_.get(), kMostHeaders);
    evhttp_set_max_body_size(http_.get(), kMostBody);
    evhttp_set_timeout(http_.get(), kMostWaiting);
    evhttp_set_gencb(
        http_.get(),
        [](evhttp_request* request, void* self) { static_cast<Server*>(self)->answer(request); },
        this);
    evhttp_bound_socket* const socket =
        evhttp_bind_socket_with_handle(http_.get(), address.address.c_str(), address.port);
    if (socket == nullptr)
      throw ConfigError(fmt::format(
          "--serve: {} port {}: {}; nearest: {}", address.address, address.port,
          std::strerror(errno),
          errno == EADDRNOTAVAIL ? "an address of this machine" : "another port, or 0 for any"));
    connections_.emplace(base_.get());
    connections_->limit(http_.get(), evhttp_bound_socket_get_listener(socket));
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    getsockname(evhttp_bound_socket_get_fd(socket), reinterpret_cast<sockaddr*>(&bound), &size);
    port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                              : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  }

  ~Server() {
    if (!thread_.joinable()) return;
    event_base_loopbreak(base_.get());
    thread_.join();
  }

  void show(const std::filesystem::path& folder) {
    folder_ = folder;
    thread_ = std::thread([this] {
      setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);  // of this thread
      event_base_loop(base_.get(), EVLOOP_NO_EXIT_ON_EMPTY);
    });
  }

  std::string url() const {
    const bool is_ipv6 = address_.find(':') != std::string::npos;
    return fmt::format("http://{}:{}/", is_ipv6 ? "[" + address_ + "]" : address_, port_);
  }

 private:
  void answer(evhttp_request* request) {
    const evhttp_uri* uri = evhttp_request_get_evhttp_uri(request);
    const char* path = uri == nullptr ? nullptr : evhttp_uri_get_path(uri);
    const std::string asked = path == nullptr ? "" : path;
    const char* host = evhttp_find_header(evhttp_request_get_input_headers(request), "Host");
    if (is_local_ && (host == nullptr || !is_local_name(host)))
      return send(request, HTTP_BADREQUEST, "Bad Request", "text/plain",
                  "not the name of this machine\n");
    if ((evhttp_request_get_command(request) & kReadMethods) == 0) {
      evhttp_add_header(evhttp_request_get_output_headers(request), "Allow", "GET, HEAD");
      return send(request, HTTP_BADMETHOD, "Method Not Allowed", "text/plain",
                  "nothing can be changed here\n");
    }
    try {
      if (asked == "/" || asked.empty()) return send_page(request);
      if (asked == "/metrics") {
        renew();
        return send(request, HTTP_OK, "OK", "text/plain; version=0.0.4; charset=utf-8",
                    prometheus_text(*records_));
      }
    } catch (const std::exception& error) {
      return send(request, HTTP_SERVUNAVAIL, "Service Unavailable", "text/plain",
                  printable(error.what()) + "\n");
    }
    send(request, HTTP_NOTFOUND, "Not Found", "text/plain", "there are / and /metrics\n");
  }

  // Reads what is new, unless that was done just now.
  void renew() {
    if (records_ && Clock::now() - renewed_ < kFresh) return;
    if (records_)
      records_->update();
    else
      records_.emplace(folder_);
    page_.clear();
    renewed_ = Clock::now();
  }

  void send_page(evhttp_request* request) {
    renew();
    if (page_.empty()) page_ = run_page(*records_, live_now());
    const std::string tag = fmt::format("\"{:x}\"", std::hash<std::string>{}(page_));
    evhttp_add_header(evhttp_request_get_output_headers(request), "ETag", tag.c_str());
    const char* known =
        evhttp_find_header(evhttp_request_get_input_headers(request), "If-None-Match");
    if (known != nullptr && tag == known)
      return send(request, HTTP_NOTMODIFIED, "Not Modified", "text/html", "");
    send(request, HTTP_OK, "OK", "text/html; charset=utf-8", page_);
  }

  static void send(evhttp_request* request, int code, const char* reason, const char* type,
                   const std::string& text) {
    evkeyvalq* headers = evhttp_request_get_output_headers(request);
    evhttp_add_header(headers, "Content-Type", type);
    evhttp_add_header(headers, "Cache-Control", "no-cache");
    evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
    evhttp_add_header(headers, "Content-Security-Policy",
                      "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                      "img-src data:; connect-src 'self'; frame-ancestors 'none'");
    const std::unique_ptr<evbuffer, Freed<evbuffer, evbuffer_free>> body(evbuffer_new());
    evbuffer_add(body.get(), text.data(), text.size());
    evhttp_send_reply(request, code, reason, body.get());
  }

  const bool is_local_;
  const std::string address_;
  uint16_t port_ = 0;
  std::unique_ptr<event_base, Freed<event_base, event_base_free>> base_;
  std::optional<Connections> connections_;  // which end with the server's
  std::unique_ptr<evhttp, Freed<evhttp, evhttp_free>> http_;
  std::filesystem::path folder_;
  Clock::time_point renewed_;
  std::optional<RunRecords> records_;
  std::string page_;  // as it was when they were renewed; "" where nobody has asked since
  std::thread thread_;
};

RunServer::RunServer(const ServeAddress& address) : server_(std::make_unique<Server>(address)) {}
RunServer::~RunServer() = default;

void RunServer::show(const std::filesystem::path& folder) { server_->show(folder); }
std::string RunServer::url() const { return server_->url(); }

}  // namespace longshore::trainer
