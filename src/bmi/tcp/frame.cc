// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/frame.h"

#include <array>
#include <bit>
#include <cstring>

namespace spate::bmi::tcp {
namespace {

constexpr std::uint8_t kMagic = 0xB5;

template <typename T>
void put(std::byte* out, T value) {
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(out, &value, sizeof value);
  } else {
    for (std::size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <typename T>
T get(const std::byte* in) {
  T value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, in, sizeof value);
  } else {
    for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | static_cast<T>(in[i]) << (8 * i));
  }
  return value;
}

/// The types in the order of their numbers on the wire, from 1 on.
constexpr std::array kTypes{FrameType::kEager,
                            FrameType::kUnexpected,
                            FrameType::kReady,
                            FrameType::kAnnounce,
                            FrameType::kClear,
                            FrameType::kData,
                            FrameType::kWithdraw,
                            FrameType::kNoData,
                            kCredit,
                            kOpenBulk};
/// The numbers by type; 0: not a type of this module.
constexpr auto kNumbers = [] {
  std::array<std::uint8_t, 15> numbers{};
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    numbers[static_cast<std::size_t>(kTypes[i])] = static_cast<std::uint8_t>(i + 1);
  }
  return numbers;
}();

}  // namespace

std::optional<FrameType> type_of_number(std::uint8_t number) {
  if (number == 0 || number > kTypes.size()) return std::nullopt;
  return kTypes[number - 1U];
}

std::uint64_t FrameHeader::payload() const {
  switch (type) {
    case FrameType::kEager:
    case FrameType::kUnexpected:
    case FrameType::kReady:
    case FrameType::kData: return length;
    default: return 0;
  }
}

HeaderBytes encode(const protocol::Header& header, std::uint32_t credit) {
  HeaderBytes bytes{};
  bytes[0] = std::byte{kMagic};
  bytes[1] = static_cast<std::byte>(kNumbers[static_cast<std::size_t>(header.type)]);
  bytes[2] = static_cast<std::byte>(header.message_class);
  bytes[3] = std::byte{header.flags};
  put<std::uint32_t>(&bytes[4], credit);
  put<std::uint64_t>(&bytes[8], header.tag);
  put<std::uint64_t>(&bytes[16], header.length);
  put<std::uint64_t>(&bytes[24], header.id);
  return bytes;
}

std::optional<FrameHeader> decode_frame(const std::byte* bytes) {
  const std::optional<FrameType> type = type_of_number(std::to_integer<std::uint8_t>(bytes[1]));
  const auto message_class = std::to_integer<std::uint8_t>(bytes[2]);
  FrameHeader header;
  header.flags = std::to_integer<std::uint8_t>(bytes[3]);
  header.length = get<std::uint64_t>(bytes + 16);
  const bool good = bytes[0] == std::byte{kMagic} && type && message_class <= 1 && header.flags <= kFlagTooBig &&
                    header.length <= kMaxLength;
  if (!good) return std::nullopt;
  header.type = *type;
  header.message_class = static_cast<MessageClass>(message_class);
  header.credit = get<std::uint32_t>(bytes + 4);
  header.tag = get<std::uint64_t>(bytes + 8);
  header.id = get<std::uint64_t>(bytes + 24);
  return header;
}

}  // namespace spate::bmi::tcp
