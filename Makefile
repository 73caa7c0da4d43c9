# Stax: build, tests, benchmarks. `make help` lists the targets.
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
SHELL := /bin/bash

# V=1 shows the commands.
ifeq ($(V),)
Q := @
say = @echo '  $(1) $(2)'
else
Q :=
say = @:
endif

# ---- configuration -------------------------------------------------------------------------------
BUILD    ?= build
JOBS     ?= $(shell nproc)
# Of a make that this one starts: its own -j, when it was given one, goes for both.
SUBJOBS   = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))
PREFIX   ?= /usr/local
CUDA_HOME ?= /usr/local/cuda
CC       ?= gcc
CXX      ?= g++
OPT      ?= -O2 -g
SAN      ?=
VERSION  := 0.1.0

LLVM_CONFIG := llvm-config-19
LLVM_INC := $(shell $(LLVM_CONFIG) --includedir 2>/dev/null)
LLVM_LIB := $(shell $(LLVM_CONFIG) --libdir 2>/dev/null)

WARN  := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
CSTD  := -std=c11 -D_GNU_SOURCE -DSTX_VERSION='"$(VERSION)"'
CFLAGS_ALL := $(CSTD) $(OPT) $(SAN) -fPIC -fno-math-errno -ffp-contract=off $(WARN) -MMD -MP
CXXFLAGS_ALL := -std=c++17 $(OPT) $(SAN) -fPIC -fno-exceptions -fno-rtti -Wall -Wextra -Werror -MMD -MP
LDFLAGS_ALL := $(SAN) -Wl,--build-id -Wl,--as-needed -Wl,-z,relro,-z,now

GEN := $(BUILD)/gen
# Generated schemas: envelopes for proto, server and client; graphs for kernels/1_graph/import.
GEN_ENV  := $(GEN)/env
GEN_WIRE := $(GEN)/wire

# ---- folders: sources and the include paths each is allowed (tests/layers.sh checks the same) -----
I_BASE   := -Iproto/base
I_PROTO  := $(I_BASE) -Iproto -I$(GEN_ENV)
I_1      := $(I_BASE) -Ikernels/1_graph
I_IMPORT := $(I_1) -Ikernels/1_graph/import -I$(GEN_WIRE)
I_2      := $(I_1) -Ikernels/2_autodiff
I_3      := $(I_2) -Ikernels/3_lower
I_4      := $(I_3) -Ikernels/4_schedule
I_5      := $(I_4) -Ikernels/5_codegen
I_6      := $(I_4) -Ikernels/6_tune
I_REF    := $(I_1) -Ikernels/ref
I_COMPILE := $(I_5) -Ikernels/6_tune -Ikernels/ref -Ikernels/1_graph/import -Ikernels
I_CACHE  := $(I_BASE) -Icache
I_SERVER := $(I_PROTO) -Icache -Ikernels -Iserver
I_CLIENT := $(I_PROTO) -Iclient
I_TESTS  := $(I_COMPILE) $(I_PROTO) -I$(GEN_WIRE) -Icache -Iserver -Iclient -Iclient/tool -Itests -Itests/e2e

src = $(sort $(wildcard $(1)))
obj = $(patsubst %,$(BUILD)/obj/%.o,$(1))

SRC_BASE   := $(call src,proto/base/*.c)
SRC_PROTO  := $(call src,proto/*.c)
SRC_1      := $(call src,kernels/1_graph/*.c)
SRC_IMPORT := $(call src,kernels/1_graph/import/*.c)
SRC_2      := $(call src,kernels/2_autodiff/*.c)
SRC_3      := $(call src,kernels/3_lower/*.c)
SRC_4      := $(call src,kernels/4_schedule/*.c)
SRC_5      := $(call src,kernels/5_codegen/*.c kernels/5_codegen/templates/*.c)
SRC_5CXX   := $(call src,kernels/5_codegen/*.cc)
SRC_6      := $(call src,kernels/6_tune/*.c)
SRC_REF    := $(call src,kernels/ref/*.c)
SRC_COMPILE := $(call src,kernels/*.c)
SRC_CACHE  := $(call src,cache/*.c)
SRC_SERVER := $(call src,server/*.c)
SRC_CLIENT := $(call src,client/*.c)
SRC_TOOL   := $(call src,client/tool/*.c)

PB_ENV  := $(GEN_ENV)/stax.pb-c.c
PB_WIRE := $(GEN_WIRE)/graph.pb-c.c $(GEN_WIRE)/onnx.pb-c.c

OBJ_BASE  := $(call obj,$(SRC_BASE))
OBJ_PROTO := $(call obj,$(SRC_PROTO)) $(PB_ENV:.c=.o)
OBJ_KERNELS := $(call obj,$(SRC_1) $(SRC_IMPORT) $(SRC_2) $(SRC_3) $(SRC_4) $(SRC_5) $(SRC_5CXX) \
               $(SRC_6) $(SRC_REF) $(SRC_COMPILE)) $(PB_WIRE:.c=.o)
OBJ_CACHE := $(call obj,$(SRC_CACHE))
OBJ_SERVER := $(call obj,$(filter-out server/main.c,$(SRC_SERVER)))
OBJ_CLIENT := $(call obj,$(SRC_CLIENT))
OBJ_TOOL  := $(call obj,$(SRC_TOOL))

# lld reads and writes memory instead of files: kernels/5_codegen/link.h.
LLD_WRAP := -Wl,--wrap=_ZN4llvm12MemoryBuffer7getFileERKNS_5TwineEbbbSt8optionalINS_5AlignEE \
            -Wl,--wrap=_ZN4llvm16FileOutputBuffer6createENS_9StringRefEmj
LIB_LLVM := $(LLD_WRAP) -L$(LLVM_LIB) -llldELF -llldCommon -lLLVM-19 -lz -lzstd -lstdc++
LIB_BASE := -lcrypto -lpthread -lm
LIB_CACHE := -lsqlite3 -lzstd
LIB_SERVER := -luv -lprotobuf-c -lseccomp
LIB_CLIENT := -lprotobuf-c -ldl

all: $(BUILD)/staxd $(BUILD)/stax $(BUILD)/libstax.so

# Per-folder include paths: the layers of shared design, enforced by the compiler.
$(BUILD)/obj/proto/base/%.o:               INC = $(I_BASE)
$(BUILD)/obj/proto/%.o:                    INC = $(I_PROTO)
$(BUILD)/obj/kernels/%.o:                  INC = $(I_COMPILE)
$(BUILD)/obj/kernels/1_graph/%.o:          INC = $(I_1)
$(BUILD)/obj/kernels/1_graph/import/%.o:   INC = $(I_IMPORT)
$(BUILD)/obj/kernels/2_autodiff/%.o:       INC = $(I_2)
$(BUILD)/obj/kernels/3_lower/%.o:          INC = $(I_3)
$(BUILD)/obj/kernels/4_schedule/%.o:       INC = $(I_4)
$(BUILD)/obj/kernels/5_codegen/%.o:        INC = $(I_5) -isystem $(LLVM_INC)
$(BUILD)/obj/kernels/6_tune/%.o:           INC = $(I_6)
$(BUILD)/obj/kernels/ref/%.o:              INC = $(I_REF)
$(BUILD)/obj/cache/%.o:                    INC = $(I_CACHE)
$(BUILD)/obj/server/%.o:                   INC = $(I_SERVER)
$(BUILD)/obj/client/%.o:                   INC = $(I_CLIENT)
$(BUILD)/obj/tests/%.o:                    INC = $(I_TESTS) -isystem $(LLVM_INC)

$(BUILD)/obj/%.c.o: %.c Makefile | generated
	@mkdir -p $(@D)
	$(call say,CC ,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(INC) -c $< -o $@
$(BUILD)/obj/%.cc.o: %.cc Makefile | generated
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) $(INC) -c $< -o $@

# ---- generated code ------------------------------------------------------------------------------
ONNX_PROTO_DIR := /usr/include/onnx
generated: $(PB_ENV) $(PB_WIRE)
.PHONY: generated
# Headers are targets too: what includes a changed one is compiled again in the same run.
$(GEN_ENV)/stax.pb-c.c $(GEN_ENV)/stax.pb-c.h &: proto/stax.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=proto --c_out=$(@D) $<
$(GEN_WIRE)/graph.pb-c.c $(GEN_WIRE)/graph.pb-c.h &: proto/graph.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=proto --c_out=$(@D) $<
$(GEN_WIRE)/onnx.pb-c.c $(GEN_WIRE)/onnx.pb-c.h &: $(ONNX_PROTO_DIR)/onnx.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=$(ONNX_PROTO_DIR) --c_out=$(@D) $<
$(GEN)/%.pb-c.o: $(GEN)/%.pb-c.c
	$(Q)$(CC) $(CSTD) $(OPT) $(SAN) -fPIC -w -c $< -o $@

# ---- libraries and programs ----------------------------------------------------------------------
$(BUILD)/libkernels.a: $(OBJ_KERNELS)
	@rm -f $@; ar rcs $@ $^
$(BUILD)/libproto.a: $(OBJ_PROTO) $(OBJ_BASE)
	@rm -f $@; ar rcs $@ $^
$(BUILD)/libcache.a: $(OBJ_CACHE)
	@rm -f $@; ar rcs $@ $^
$(BUILD)/libserver.a: $(OBJ_SERVER)
	@rm -f $@; ar rcs $@ $^

$(BUILD)/staxd: $(call obj,server/main.c) $(BUILD)/libserver.a $(BUILD)/libcache.a $(BUILD)/libkernels.a $(BUILD)/libproto.a
	$(call say,LD ,$@)
	$(Q)$(CXX) $(LDFLAGS_ALL) -o $@ $^ $(LIB_SERVER) $(LIB_CACHE) $(LIB_LLVM) $(LIB_BASE)
$(BUILD)/libstax.so: $(OBJ_CLIENT) $(BUILD)/libproto.a client/stax.map
	$(call say,LD ,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,libstax.so.0 -Wl,--version-script=client/stax.map -o $@ \
		$(OBJ_CLIENT) $(BUILD)/libproto.a $(LIB_CLIENT) $(LIB_BASE)
	@ln -sf libstax.so $(BUILD)/libstax.so.0
$(BUILD)/stax: $(OBJ_TOOL) $(BUILD)/libstax.so $(BUILD)/libproto.a
	$(call say,LD ,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(OBJ_TOOL) $(BUILD)/libproto.a -L$(BUILD) -lstax \
		-Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib' $(LIB_CLIENT) $(LIB_BASE)

# ---- tests ---------------------------------------------------------------------------------------
# One program a file under tests/unit, tests/property, tests/conformance; each is a cmocka group.
TEST_SRC := $(call src,tests/unit/*/test_*.c tests/unit/test_*.c tests/property/test_*.c tests/conformance/test_*.c)
TEST_BIN := $(patsubst tests/%.c,$(BUILD)/tests/%,$(TEST_SRC))
# Client code is linked statically, so that tests reach what libstax.so does not export.
$(BUILD)/libclient.a: $(OBJ_CLIENT)
	@rm -f $@; ar rcs $@ $^
$(BUILD)/libtool.a: $(filter-out %/main.c.o,$(OBJ_TOOL))
	@rm -f $@; ar rcs $@ $^
TEST_LIBS := $(BUILD)/libtool.a $(BUILD)/libclient.a $(BUILD)/libserver.a $(BUILD)/libcache.a $(BUILD)/libkernels.a $(BUILD)/libproto.a
$(BUILD)/tests/%: $(BUILD)/obj/tests/%.c.o $(call obj,$(call src,tests/*.c)) $(TEST_LIBS) $(BUILD)/libstax.so
	@mkdir -p $(@D)
	$(call say,LD ,$@)
	$(Q)$(CXX) $(LDFLAGS_ALL) -o $@ $(filter %.o %.a,$^) -L$(BUILD) -lstax -Wl,-rpath,$(abspath $(BUILD)) -lcmocka \
		$(LIB_SERVER) $(LIB_CACHE) $(LIB_LLVM) $(LIB_CLIENT) $(LIB_BASE)
# A driver without a GPU: what libstax finds as libcuda.so.1 in tests of the runtime.
FAKE_CUDA := $(BUILD)/tests/fake/libcuda.so.1
$(FAKE_CUDA): tests/fake/cuda.c tests/fake/fake.h
	@mkdir -p $(@D)
	$(call say,LD ,$@)
	$(Q)$(CC) $(CSTD) $(OPT) $(SAN) -fPIC $(WARN) -shared -Wl,-soname,libcuda.so.1 -o $@ $< -lpthread
# And cuBLASLt and cuDNN on the host.
FAKE_CUBLASLT := $(BUILD)/tests/fake/libcublasLt.so.13
FAKE_CUDNN := $(BUILD)/tests/fake/libcudnn.so.9
$(FAKE_CUBLASLT): $(BUILD)/obj/tests/fake/cublaslt.c.o
$(FAKE_CUDNN): $(BUILD)/obj/tests/fake/cudnn.c.o $(BUILD)/obj/tests/fake/cudnn_attention.c.o
$(FAKE_CUBLASLT) $(FAKE_CUDNN): $(BUILD)/libkernels.a $(BUILD)/libproto.a
	@mkdir -p $(@D)
	$(call say,LD ,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,$(@F) -Wl,--exclude-libs,ALL -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIB_BASE)
$(BUILD)/tests/unit/client/test_matmul $(BUILD)/tests/unit/client/test_matmul_tune \
  $(BUILD)/tests/unit/client/test_attention $(BUILD)/tests/unit/client/test_convolution \
  $(BUILD)/tests/unit/client/test_convolution_engines: | $(FAKE_CUDA) $(FAKE_CUBLASLT) $(FAKE_CUDNN)
tests-build: $(TEST_BIN) $(FAKE_CUDA) $(FAKE_CUBLASLT) $(FAKE_CUDNN)
.PHONY: all tests-build
.SECONDARY:

# Programs under tests/e2e and tests/bench: C programs and scripts that start a daemon of their own.
E2E_BIN := $(patsubst tests/%.c,$(BUILD)/tests/%,$(call src,tests/e2e/*.c tests/bench/*.c))
E2E_SH  := $(call src,tests/e2e/test_*.sh)
e2e-build: $(E2E_BIN) $(FAKE_CUDA) $(FAKE_CUBLASLT)
.PHONY: e2e-build

export STAX_BUILD := $(abspath $(BUILD))
ONNX_CORPUS ?= ../shared/onnx/onnx-backend-tests.tar.gz

# Random graphs of the property test. From 2000 it also asks that every operator occurred with every
# dtype and layout, and for shares of graphs with exact sums and with indices out of bounds.
PROPERTY_GRAPHS ?= 2000

# `make check`: everything, from a bare machine; the last line is `N passed, N failed, N skipped`.
check:
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory $(SUBJOBS) all tests-build e2e-build fuzz-build
	@$(MAKE) --no-print-directory check-run
check-run: all tests-build e2e-build fuzz-build layers headers
	@STAX_PROPERTY_GRAPHS=$(PROPERTY_GRAPHS) ONNX_CORPUS=$(ONNX_CORPUS) tests/run.sh -j 2 -t 1500 $(TEST_BIN) $(E2E_SH) tests/fuzz/short.sh tests/coverage.sh tests/numerics.sh tests/onnx_corpus.sh
check-onnx:
	@[ -n "$(ONNX_TESTS)" ] || { echo "usage: make check-onnx ONNX_TESTS=DIR" >&2; exit 2; }
	@$(MAKE) --no-print-directory all
	@tests/check_onnx.sh "$(ONNX_TESTS)"
# Minutes: not part of `make check`.
check-models: all $(BUILD)/tests/e2e/random_weights
	@ONNX_CORPUS=$(ONNX_CORPUS) tests/check_models.sh $(MODELS)
# Every f32 argument of the elementary functions, as compiled; FUNCTIONS=exp,log only those. Half an hour of one core;
# goes on where it was stopped.
comma := ,
check-functions:
	@$(MAKE) --no-print-directory $(SUBJOBS) $(BUILD)/tests/unit/5_codegen/test_functions
	@STAX_BUILD=$(BUILD) tests/functions.sh $(filter-out all,$(subst $(comma), ,$(FUNCTIONS)))
# 100,000 other random graphs, in slices; goes on where it was stopped.
check-overnight:
	@$(MAKE) --no-print-directory $(SUBJOBS) $(BUILD)/tests/property/test_graphs
	@tests/overnight.sh
.PHONY: check check-run check-onnx check-models check-functions check-overnight

demo:
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory $(SUBJOBS) all e2e-build
	@tests/e2e/demo.sh
.PHONY: demo

bench:
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory $(SUBJOBS) all e2e-build
	@ONNX_CORPUS=$(ONNX_CORPUS) BENCH_CASES="$(BENCH_CASES)" tests/bench/bench.sh
.PHONY: bench

# ---- machines with a GPU: checks, benchmarks, the bundle for one that has no compiler -------------
# Test programs that run their graphs on $STAX_TEST_TARGET, a GPU's too.
GPU_TEST_BIN := $(addprefix $(BUILD)/tests/,$(shell cut -d" " -f1 tests/gpu/programs)) $(BUILD)/tests/property/test_graphs \
	$(BUILD)/tests/bench/bench_cuda $(BUILD)/tests/unit/5_codegen/test_functions
check-gpu: all $(GPU_TEST_BIN)
	@ONNX_CORPUS=$(ONNX_CORPUS) tests/gpu/check.sh $(GPU_PARTS)
bench-gpu: all $(BUILD)/tests/bench/bench_cuda
	@tests/bench/bench_gpu.sh $(GPU_CASES)
.PHONY: check-gpu bench-gpu

# The bundle: the same programs with the bundle's own libraries beside them (DT_RPATH: LD_LIBRARY_PATH cannot put
# others before them); test programs share one library, and libLLVM holds what is called of it.
BUNDLE := $(BUILD)/bundle
BUNDLE_LD = $(LDFLAGS_ALL) -Wl,-s -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN/$(1)lib:$$ORIGIN/$(1)build'
up = $(subst / .,/.,$(patsubst %,../,$(subst /, ,$(1))))
BUNDLE_TESTS := $(patsubst $(BUILD)/tests/%,$(BUNDLE)/build/tests/%,$(GPU_TEST_BIN))
BUNDLE_BIN := $(addprefix $(BUNDLE)/build/,staxd stax libstax.so) $(BUNDLE_TESTS)
$(BUNDLE)/lib/libLLVM.so.19.1: $(BUILD)/libkernels.a deploy/bundle/llvm.sh
	$(call say,LD ,$@)
	$(Q)deploy/bundle/llvm.sh $@ $<
$(BUNDLE)/lib/libstaxtest.so: $(TEST_LIBS) $(BUNDLE)/lib/libLLVM.so.19.1
	$(call say,LD ,$@)
	$(Q)$(CXX) $(LDFLAGS_ALL) -Wl,-s -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN' -shared -Wl,-soname,libstaxtest.so \
		-o $@ -Wl,--whole-archive $(TEST_LIBS) -Wl,--no-whole-archive $(LIB_SERVER) $(LIB_CACHE) $(LIB_LLVM) \
		$(LIB_CLIENT) $(LIB_BASE)
$(BUNDLE)/build/staxd: $(BUILD)/staxd
	@mkdir -p $(@D)
	$(Q)$(CXX) $(call BUNDLE_LD,../) -o $@ $(call obj,server/main.c) $(addprefix $(BUILD)/,libserver.a libcache.a libkernels.a \
		libproto.a) $(LIB_SERVER) $(LIB_CACHE) $(LIB_LLVM) $(LIB_BASE)
$(BUNDLE)/build/libstax.so: $(BUILD)/libstax.so
	@mkdir -p $(@D)
	$(Q)$(CC) $(call BUNDLE_LD,../) -shared -Wl,-soname,libstax.so.0 -Wl,--version-script=client/stax.map -o $@ \
		$(OBJ_CLIENT) $(BUILD)/libproto.a $(LIB_CLIENT) $(LIB_BASE)
	@ln -sf libstax.so $@.0
$(BUNDLE)/build/stax: $(BUILD)/stax $(BUNDLE)/build/libstax.so
	$(Q)$(CC) $(call BUNDLE_LD,../) -o $@ $(OBJ_TOOL) $(BUILD)/libproto.a -L$(@D) -lstax $(LIB_CLIENT) $(LIB_BASE)
$(BUNDLE)/build/tests/%: $(BUILD)/obj/tests/%.c.o $(call obj,$(call src,tests/*.c)) $(BUNDLE)/lib/libstaxtest.so
	@mkdir -p $(@D)
	$(Q)$(CXX) $(call BUNDLE_LD,../../$(call up,$(dir $*))) -o $@ $(filter %.o,$^) -L$(BUNDLE)/lib -lstaxtest -lcmocka -lprotobuf-c \
		$(LIB_BASE)
gpu-bundle:
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory $(SUBJOBS) gpu-bundle-build
	@ONNX_CORPUS=$(ONNX_CORPUS) deploy/bundle/pack.sh $(BUNDLE)
gpu-bundle-build: all $(GPU_TEST_BIN) $(BUNDLE_BIN)
.PHONY: gpu-bundle gpu-bundle-build

# ---- fuzzing: libFuzzer targets, built by clang against the same sources ------------------------
FUZZ_NAMES := frame wire onnx text plan tensor
FUZZ_CC   := clang
FUZZ_TOOL := $(addprefix client/tool/,host.c npy.c onnx_tensor.c model.c)
FUZZ_SRC  := $(SRC_BASE) $(SRC_PROTO) $(SRC_1) $(SRC_IMPORT) $(FUZZ_TOOL) $(PB_ENV) $(PB_WIRE)
FUZZ_OBJ  := $(patsubst %,$(BUILD)/fuzz/obj/%.o,$(FUZZ_SRC))
FUZZ_BIN  := $(patsubst %,$(BUILD)/fuzz/fuzz_%,$(FUZZ_NAMES))
FUZZ_FLAGS := -g -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
$(BUILD)/fuzz/obj/%.c.o: %.c Makefile | generated
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) $(CSTD) $(FUZZ_FLAGS) -ffp-contract=off $(I_IMPORT) $(I_PROTO) -w -MMD -MP -c $< -o $@
$(BUILD)/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(FUZZ_OBJ)
	$(Q)$(FUZZ_CC) $(CSTD) $(FUZZ_FLAGS) -fsanitize=fuzzer $(I_IMPORT) $(I_PROTO) -Iclient/tool -Itests -Wall -Wextra -o $@ $^ -lprotobuf-c -lcrypto -lm
$(BUILD)/fuzz/seeds: tests/fuzz/seeds.c tests/planbuild.c $(BUILD)/libtool.a $(BUILD)/libproto.a $(GEN_WIRE)/graph.pb-c.o
	@mkdir -p $(@D)
	$(Q)$(CC) $(CSTD) $(OPT) $(SAN) $(I_PROTO) -I$(GEN_WIRE) -Iclient/tool -Itests -Wall -Wextra -o $@ $^ -lprotobuf-c $(LIB_BASE)
fuzz-build: $(FUZZ_BIN) $(BUILD)/fuzz/seeds
fuzz: fuzz-build
	@tests/fuzz/long.sh $(FUZZ_SECONDS)
.PHONY: fuzz fuzz-build

# ---- upkeep --------------------------------------------------------------------------------------
deps:
	@tests/deps.sh
layers:
	@tests/layers.sh
headers:
	@CC="$(CC)" CXX="$(CXX)" tests/headers.sh $(PUBLIC_HEADERS)
C_FILES := $(shell find proto kernels cache server client tests -name '*.[ch]' 2>/dev/null)
fmt:
	@clang-format -i --style=file $(C_FILES)
lint: generated
	@tests/lint.sh
# The unit, property (200 graphs) and end-to-end tests under the address and undefined-behaviour
# sanitizers.
san:
	@$(MAKE) --no-print-directory BUILD=build-san OPT="-O1 -g -fno-omit-frame-pointer" \
		SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined" $(SUBJOBS) san-build
	@$(MAKE) --no-print-directory BUILD=build-san san-run
san-build: all tests-build e2e-build
san-run:
	@STAX_PROPERTY_GRAPHS=200 tests/run.sh -j 2 -t 1800 $(TEST_BIN) $(E2E_SH)
# What has threads (daemon, store, client) and the load test under the thread sanitizer.
TSAN_BIN = $(filter $(addprefix $(BUILD)/tests/unit/,base/% proto/% cache/% client/% server/%),$(TEST_BIN))
tsan:
	@$(MAKE) --no-print-directory BUILD=build-tsan OPT="-O1 -g -fno-omit-frame-pointer" \
		SAN="-fsanitize=thread" $(SUBJOBS) tsan-build
	@$(MAKE) --no-print-directory BUILD=build-tsan tsan-run
tsan-build: all e2e-build $(TSAN_BIN) $(FAKE_CUBLASLT)
# die_after_fork: threads of a forked child are what a test is about.
tsan-run:
	@TSAN_OPTIONS="die_after_fork=0 suppressions=$(CURDIR)/tests/tsan.supp" tests/run.sh -j 2 -t 1800 \
		$(TSAN_BIN) tests/e2e/test_load.sh tests/e2e/test_tool.sh
.PHONY: deps layers headers fmt lint san san-build san-run tsan tsan-build tsan-run

PUBLIC_HEADERS := client/stax.h $(addprefix proto/base/,stax_abi.h dtype.h dtype.def status.h status.def)
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/include/stax
	install -m 755 $(BUILD)/staxd $(BUILD)/stax $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(BUILD)/libstax.so $(DESTDIR)$(PREFIX)/lib/libstax.so.0
	ln -sf libstax.so.0 $(DESTDIR)$(PREFIX)/lib/libstax.so
	install -m 644 $(PUBLIC_HEADERS) $(DESTDIR)$(PREFIX)/include/stax
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' deploy/stax.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/stax.pc
.PHONY: install

help:
	@printf '  %-34s %s\n' \
		"make, make all" "staxd, stax and libstax.so in build/" \
		"make deps" "installs the packages that are missing (Debian 12)" \
		"make demo" "a real model: compile, run, compare with the oracle, hit" \
		"make check" "every test; the last line is N passed, N failed, N skipped" \
		"make check-onnx ONNX_TESTS=DIR" "the ONNX backend tests in DIR" \
		"make check-models [MODELS=NAME]" "whole networks with random weights against the oracle" \
		"make check-functions [FUNCTIONS=exp,log]" "elementary functions over all f32 arguments" \
		"make check-overnight" "100,000 more random graphs against the oracle; resumes" \
		"make bench [BENCH_CASES=...]" "compile times, and the CPU table against PyTorch and OpenBLAS" \
		"make check-gpu [GPU_PARTS=...]" "everything a GPU can run, on this machine's; skips without one" \
		"make bench-gpu [GPU_CASES=...]" "the GPU table, against PyTorch where there is one" \
		"make gpu-bundle" "build/bundle/stax-gpu.tar.xz: all that for a machine without LLVM" \
		"make san" "the tests under the address and undefined-behaviour sanitizers" \
		"make tsan" "daemon, store, client and the load test under the thread sanitizer" \
		"make fuzz [FUZZ_SECONDS=600]" "the fuzzers, FUZZ_SECONDS each" \
		"make lint" "static checks" \
		"make fmt" "clang-format on every C file" \
		"make layers" "who may include whom" \
		"make install [PREFIX=/usr/local]" "programs, library, headers, stax.pc" \
		"make clean" "removes build/"

clean:
	rm -rf $(BUILD)
.PHONY: clean help

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
