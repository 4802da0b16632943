// Vectors as wide as this machine's. Every operation is written out, and compiled with -ffp-contract=off: it rounds in
// one way only, whatever loop it is inlined into, so that a row's bits do not depend on what is computed beside it.
#pragma once

#include <cfloat>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t Words __attribute__((vector_size(4 * LANES)));
typedef uint16_t Halves __attribute__((vector_size(2 * LANES)));

struct Bf16 {
    uint16_t bits;
};

template <typename To, typename From>
inline To as(From value) {
    static_assert(sizeof(To) == sizeof(From), "the same bits in another type");
    To result;
    std::memcpy(&result, &value, sizeof result);
    return result;
}

inline Floats all(float value) { return value - Floats{}; }

template <typename Vector, typename Stored>
inline Vector load_bits(const Stored* from) {
    Vector result;
    std::memcpy(&result, from, sizeof result);
    return result;
}

inline Floats load(const float* from) { return load_bits<Floats>(from); }

inline Floats load(const Bf16* from) {
    return as<Floats>(__builtin_convertvector(load_bits<Halves>(from), Words) << 16);
}

inline void store(float* to, Floats value) { std::memcpy(to, &value, sizeof value); }

// Rounded to the nearest, ties to even; NaN stays NaN.
inline void store(Bf16* to, Floats value) {
#if defined(__AVX512BF16__)
    const __m256bh halves = _mm512_cvtneps_pbh((__m512)value);
#else
    const Words bits = as<Words>(value);
    const Words rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const Halves halves = __builtin_convertvector(value == value ? rounded : Words{} + 0x7FC0, Halves);
#endif
    std::memcpy(to, &halves, sizeof halves);
}

// Two vectors at once: what is read soon as one is written as one.
template <typename Stored>
inline void store(Stored* to, Floats first, Floats second) {
#if defined(__AVX512BF16__)
    if constexpr (sizeof(Stored) == sizeof(Bf16)) {
        const __m512bh halves = _mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
        std::memcpy(to, &halves, sizeof halves);
        return;
    }
#endif
    store(to, first);
    store(to + LANES, second);
}

inline Floats fma(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX__) && defined(__FMA__)
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

// Of a number and NaN, b.
inline Floats maximum(Floats a, Floats b) {
#if defined(__AVX512F__)
    return (Floats)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (Floats)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return a > b ? a : b;
#endif
}

inline Floats add(Floats a, Floats b) { return a + b; }

inline Ints counting() {
    Ints result{};
    for (int i = 0; i < LANES; ++i) result[i] = i;
    return result;
}

// 2^x for x <= 0, to 2 units in the last place; exactly 1 at 0, exactly 0 from -127 down, NaN for NaN.
inline Floats exp2(Floats x) {
    const Floats magic = all(12582912.0f);  // 1.5 * 2^23: a sum with it has the nearest integer in its low bits
    const Floats kept = maximum(all(-127.0f), x);
    const Floats shifted = kept + magic;
    const Floats rest = kept - (shifted - magic);
    Floats power = all(1.3274633e-3f);  // the best polynomial of degree 5 for a rest within +-0.5
    power = fma(power, rest, all(9.6719617e-3f));
    power = fma(power, rest, all(5.5506784e-2f));
    power = fma(power, rest, all(2.4022235e-1f));
    power = fma(power, rest, all(6.9314706e-1f));
    power = fma(power, rest, all(1.0f));
    return as<Floats>(as<Ints>(power) + (as<Ints>(shifted) << 23));
}

inline Floats tanh(Floats x) {
    const Words sign = as<Words>(x) & 0x80000000u;
    const Floats size = as<Floats>(as<Words>(x) ^ sign);
    const Floats small = exp2(size * -2.8853901f);  // e^(-2 |x|)
    return as<Floats>(as<Words>((1.0f - small) / (1.0f + small)) | sign);
}

// a0 b0 a1 b1 … of the first (interleave_low) or second halves of a and b.
#if defined(__clang__)
#define FORERUN_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define FORERUN_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Words{__VA_ARGS__})
#endif

#if defined(__AVX512F__)
inline Words interleave_low(Words a, Words b) {
    return FORERUN_SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
inline Words interleave_high(Words a, Words b) {
    return FORERUN_SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
#elif defined(__AVX__)
inline Words interleave_low(Words a, Words b) { return FORERUN_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
inline Words interleave_high(Words a, Words b) { return FORERUN_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
#else
inline Words interleave_low(Words a, Words b) { return FORERUN_SHUFFLE(a, b, 0, 4, 1, 5); }
inline Words interleave_high(Words a, Words b) { return FORERUN_SHUFFLE(a, b, 2, 6, 3, 7); }
#endif

// A square of words mirrored at its diagonal: log2(LANES) times the perfect shuffle of its rows.
inline void transpose(Words (&rows)[LANES]) {
    for (int width = 1; width < LANES; width *= 2) {
        Words shuffled[LANES];
        for (int i = 0; i < LANES / 2; ++i) {
            shuffled[2 * i] = interleave_low(rows[i], rows[i + LANES / 2]);
            shuffled[2 * i + 1] = interleave_high(rows[i], rows[i + LANES / 2]);
        }
        for (int i = 0; i < LANES; ++i) rows[i] = shuffled[i];
    }
}

// In lane i what `join` makes of all lanes of rows[i].
template <typename Join>
inline Floats across(const Floats* rows, Join join) {
    Words square[LANES];
    for (int i = 0; i < LANES; ++i) square[i] = as<Words>(rows[i]);
    transpose(square);
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; ++i)
            square[i] = as<Words>(join(as<Floats>(square[i]), as<Floats>(square[i + width])));
    return as<Floats>(square[0]);
}
