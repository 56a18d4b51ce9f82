// All of Thunder.
#ifndef THUNDER_THUNDER_H
#define THUNDER_THUNDER_H

#include "thunder/base.h"
#include "thunder/dlpack.h"
#include "thunder/executor.h"
#include "thunder/jit.h"
#include "thunder/module.h"
#include "thunder/ops.h"
#include "thunder/pt2.h"
#include "thunder/safetensors.h"
#include "thunder/tensor.h"
#include "thunder/trace.h"
#include "thunder/transform.h"

#endif
