// Arguments of sin, cos and tan too large for multiples of pi/2 in a few parts:
// the method of Payne and Hanek.  Of 2/pi only the bits that matter for the
// exponent at hand are multiplied: higher ones give whole turns, lower ones
// vanish.  Scalar code, reached through th_math_rare.
#include "lowering/math_inner.h"

// 2/pi after a word of zeros, so that a window may begin before the point.
static const uint64_t reduce_words_32[] = {
    0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1,
    0xf534ddc0, 0xdb629599, 0x3c439041,
};
static const uint64_t reduce_words_64[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0,
    0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
    0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
    0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
};

enum { REDUCE_WINDOW = 4 };

// Words [index, index + 4) of a table, chosen bit by bit of the index: no
// memory, so the same code serves every target.
static void reduce_pick(th_emit *e, const uint64_t *words, unsigned count,
                        LLVMTypeRef type, value index, value *out) {
  value row[TH_COUNT(reduce_words_64)];
  TH_ASSERT(count <= TH_COUNT(row));
  for (unsigned i = 0; i < count; i++) {
    row[i] = th_emit_const_int(e, type, (int64_t)words[i]);
  }
  unsigned bits = 0;
  while ((count - REDUCE_WINDOW) >> bits) {
    bits++;
  }
  for (unsigned bit = bits; bit-- > 0;) {
    value one =
        th_emit_and(e, th_emit_lshr(e, index, bit), th_emit_int(e, index, 1));
    value set = th_emit_icmp(e, LLVMIntNE, one, th_emit_int(e, index, 0));
    unsigned keep = REDUCE_WINDOW + (1u << bit) - 1;
    for (unsigned i = 0; i < keep && i < count; i++) {
      unsigned other = i + (1u << bit);
      if (other < count) {
        row[i] = th_emit_select(e, set, row[other], row[i]);
      }
    }
  }
  for (unsigned i = 0; i < REDUCE_WINDOW; i++) {
    out[i] = row[i];
  }
}

// (high : low) << bits, the upper word; bits may be 0.
static value reduce_funnel(th_emit *e, value high, value low, value bits,
                           unsigned width) {
  value left = LLVMBuildShl(e->builder, high, bits, "");
  value back = th_emit_sub(e, th_emit_int(e, bits, width), bits);
  value right = LLVMBuildLShr(e->builder, low, back, "");
  value zero = th_emit_icmp(e, LLVMIntEQ, bits, th_emit_int(e, bits, 0));
  return th_emit_select(e, zero, high, th_emit_or(e, left, right));
}

typedef struct reduce_product {
  value mantissa;  // left-justified, the 1 included
  value window[3]; // of 2/pi, a quarter turn being 2^-2 of the first word
} reduce_product;

// The mantissa m and a window U with x * 2/pi = 4 m U, up to whole turns, where
// m and the first word of U are read as fractions of 2^width.
static reduce_product reduce_prepare(th_emit *e, value x, bool wide) {
  unsigned width = wide ? 64 : 32, stored = wide ? 52 : 23;
  int bias = wide ? 1023 : 127;
  unsigned shift = wide ? 6 : 5;
  value bits = th_emit_bits(e, x);
  value exponent = th_emit_lshr(e, bits, stored);
  exponent = th_emit_and(e, exponent, th_emit_int(e, bits, 2 * bias + 1));
  value first = th_emit_sub(e, exponent, th_emit_int(e, bits, bias - 1 + 2));
  value mantissa = th_emit_shl(e, bits, width - 1 - stored);
  int64_t top = (int64_t)(UINT64_C(1) << (width - 1));
  reduce_product p = {.mantissa =
                          th_emit_or(e, mantissa, th_emit_int(e, bits, top))};
  value index = th_emit_lshr(e, first, shift);
  value offset = th_emit_and(e, first, th_emit_int(e, bits, width - 1));
  value words[REDUCE_WINDOW];
  unsigned count = wide ? TH_COUNT(reduce_words_64) : TH_COUNT(reduce_words_32);
  reduce_pick(e, wide ? reduce_words_64 : reduce_words_32, count,
              LLVMTypeOf(bits), index, words);
  for (unsigned i = 0; i < TH_COUNT(p.window); i++) {
    p.window[i] = reduce_funnel(e, words[i], words[i + 1], offset, width);
  }
  return p;
}

// The upper two words of mantissa * window modulo 2^(2 width) of the three, as
// one integer of twice the width: the fraction of a turn.
static value reduce_fraction(th_emit *e, reduce_product p, unsigned width) {
  LLVMTypeRef type = LLVMIntTypeInContext(e->context, 2 * width);
  value m = th_emit_zext(e, p.mantissa, type);
  value low = th_emit_mul(e, m, th_emit_zext(e, p.window[2], type));
  value middle = th_emit_mul(e, m, th_emit_zext(e, p.window[1], type));
  value high = th_emit_mul(e, p.mantissa, p.window[0]);
  high = th_emit_shl(e, th_emit_zext(e, high, type), width);
  return th_emit_add(e, th_emit_add(e, th_emit_lshr(e, low, width), middle),
                     high);
}

typedef struct reduce_turn {
  value quarter; // integer of the width of x, for x > 0
  value size;    // |remainder| as a fraction of 2^bits quarter turns
  value below;   // i1: the remainder is negative
} reduce_turn;

// Splits a fraction of a turn into the nearest quarter and what is left.
static reduce_turn reduce_split(th_emit *e, value fraction, unsigned bits) {
  value left = th_emit_shl(e, fraction, 2);
  value below = th_emit_icmp(e, LLVMIntSLT, left, th_emit_int(e, left, 0));
  value quarter = th_emit_lshr(e, fraction, bits - 2);
  value next = th_emit_add(e, quarter, th_emit_int(e, quarter, 1));
  value size = th_emit_select(
      e, below, th_emit_sub(e, th_emit_int(e, left, 0), left), left);
  return (reduce_turn){th_emit_select(e, below, next, quarter), size, below};
}

// The sign of x turns both the remainder and the quarter around.
static void reduce_finish(th_emit *e, value x, reduce_turn turn, value *out,
                          unsigned count) {
  value bits = th_emit_bits(e, x);
  value minus = th_emit_icmp(e, LLVMIntSLT, bits, th_emit_int(e, bits, 0));
  value quarter = th_emit_zext(e, turn.quarter, LLVMTypeOf(bits));
  value flipped = th_emit_sub(e, th_emit_int(e, bits, 0), quarter);
  value negative = th_emit_xor(e, minus, turn.below);
  value finite = th_emit_fcmp(e, LLVMRealONE, th_emit_fabs(e, x),
                              th_emit_float(e, x, INFINITY));
  value nan = th_emit_float(e, x, NAN);
  for (unsigned i = 0; i < count; i++) {
    if (i != 1) {
      out[i] = th_emit_select(e, negative, th_emit_fneg(e, out[i]), out[i]);
      out[i] = th_emit_select(e, finite, out[i], nan);
    }
  }
  out[1] = th_emit_select(e, minus, flipped, quarter);
}

void th_f32_reduce_large(th_emit *e, value x, value *out, unsigned count) {
  reduce_product product = reduce_prepare(e, x, false);
  value fraction = reduce_fraction(e, product, 32);
  reduce_turn turn = reduce_split(e, fraction, 64);
  value size = LLVMBuildUIToFP(e->builder, turn.size, e->f64, "");
  size = th_emit_fmul(e, size, th_emit_float(e, size, M_PI_2 * 0x1p-64));
  out[0] = th_math_narrow(e, size);
  reduce_finish(e, x, turn, out, count);
}

// The fraction of a quarter has up to 62 leading zeros; it is moved up and cut
// into a head of 53 bits and a tail, both exact, before it meets pi/2.
void th_f64_reduce_large(th_emit *e, value x, value *out, unsigned count) {
  reduce_product product = reduce_prepare(e, x, true);
  value fraction = reduce_fraction(e, product, 64);
  reduce_turn turn = reduce_split(e, fraction, 128);
  value high = th_emit_zext(e, th_emit_lshr(e, turn.size, 64), e->i64);
  value args[] = {high, LLVMConstInt(e->i1, 0, false)};
  value zeros = th_emit_intrinsic(e, TH_INTRINSIC_ctlz, args, 2);
  zeros = th_emit_select(
      e, th_emit_icmp(e, LLVMIntULT, zeros, th_emit_int(e, zeros, 63)), zeros,
      th_emit_int(e, zeros, 63));
  value wide = th_emit_zext(e, zeros, LLVMTypeOf(turn.size));
  value moved = LLVMBuildShl(e->builder, turn.size, wide, "");
  value top = th_emit_zext(e, th_emit_lshr(e, moved, 75), e->i64);
  value rest = th_emit_zext(e, th_emit_lshr(e, moved, 22), e->i64);
  rest = th_emit_and(e, rest, th_emit_int(e, rest, (INT64_C(1) << 53) - 1));
  value head = LLVMBuildUIToFP(e->builder, top, e->f64, "");
  value tail = LLVMBuildUIToFP(e->builder, rest, e->f64, "");
  tail = th_emit_fmul(e, tail, th_emit_float(e, tail, 0x1p-53));
  math_pair r = th_math_two_product(e, head, th_emit_float(e, head, M_PI_2));
  value low = th_emit_fma(e, tail, th_emit_float(e, head, M_PI_2), r.lo);
  low =
      th_emit_fma(e, head, th_emit_float(e, head, 6.123233995736766e-17), low);
  r = th_math_quick_sum(e, r.hi, low);
  // 2^-(53 + zeros) as a float: the head is an integer below 2^53.
  value power = th_emit_sub(e, th_emit_int(e, zeros, 1023 - 53), zeros);
  value scale = th_emit_from_bits(e, th_emit_shl(e, power, 52), e->f64);
  out[0] = th_emit_fmul(e, r.hi, scale);
  if (count > 2) {
    out[2] = th_emit_fmul(e, r.lo, scale);
  }
  reduce_finish(e, x, turn, out, count);
}
