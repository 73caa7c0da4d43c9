// passes.cc: LLVM's pass managers, made once a target machine (passes.h says why).
#include "passes.h"

#include <memory>
#include <string>

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

namespace
{

// The back end's passes and where they write. An object's memory is the next one's too.
struct BackEnd {
	llvm::SmallVector<char, 0> text;
	llvm::raw_svector_ostream out{ text };
	llvm::legacy::PassManager passes;
};

llvm::TargetMachine *machine_of(LLVMTargetMachineRef m)
{
	return reinterpret_cast<llvm::TargetMachine *>(m);
}

} // namespace

struct stx__passes {
	llvm::TargetMachine *machine;
	llvm::LoopAnalysisManager loops;
	llvm::FunctionAnalysisManager functions;
	llvm::CGSCCAnalysisManager components;
	llvm::ModuleAnalysisManager modules;
	llvm::ModulePassManager optimise;
	std::unique_ptr<BackEnd> back[2]; // object, assembly; made at first use

	explicit stx__passes(llvm::TargetMachine *m) : machine(m) {}
	llvm::Error open(const char *pipeline);
	BackEnd *back_end(int assembly);
};

llvm::Error stx__passes::open(const char *pipeline)
{
	llvm::PassBuilder builder(machine);
	builder.registerModuleAnalyses(modules);
	builder.registerCGSCCAnalyses(components);
	builder.registerFunctionAnalyses(functions);
	builder.registerLoopAnalyses(loops);
	builder.crossRegisterProxies(loops, functions, components, modules);
	return builder.parsePassPipeline(optimise, pipeline);
}

// What of LLVM's back end is not run. A link resets the options, so they are set again before each
// use: only to make the passes reads them.
static bool set_options()
{
	// loop strength reduction takes 40% of the time of a small kernel's emission, and the emitter's
	// addresses need none; the combiner rebalances chains that the emitter has written as it wants
	// them, 4% of it
	static const struct {
		const char *name;
		bool value;
	} options[] = { { "disable-lsr", true }, { "x86-machine-combiner", false } };
	auto &all = llvm::cl::getRegisteredOptions();
	for (auto &o : options) {
		auto found = all.find(o.name);
		if (found == all.end())
			return false;
		static_cast<llvm::cl::opt<bool> *>(found->second)->setValue(o.value);
	}
	return true;
}

BackEnd *stx__passes::back_end(int assembly)
{
	std::unique_ptr<BackEnd> &b = back[assembly ? 1 : 0];
	if (b)
		return b.get();
	auto made = std::make_unique<BackEnd>();
	if (!set_options() ||
	    machine->addPassesToEmitFile(made->passes, made->out, nullptr,
					 assembly ? llvm::CodeGenFileType::AssemblyFile
						  : llvm::CodeGenFileType::ObjectFile))
		return nullptr;
	b = std::move(made);
	return b.get();
}

static void say(const std::string &text, char *err, size_t cap)
{
	size_t n = text.copy(err, cap - 1);
	err[n] = 0;
}

struct stx__passes *stx__passes_new(LLVMTargetMachineRef machine, const char *pipeline, char *err,
				    size_t cap)
{
	auto p = std::make_unique<stx__passes>(machine_of(machine));
	if (llvm::Error bad = p->open(pipeline)) {
		say(llvm::toString(std::move(bad)), err, cap);
		return nullptr;
	}
	return p.release();
}

void stx__passes_free(struct stx__passes *p)
{
	delete p;
}

void stx__passes_optimise(struct stx__passes *p, LLVMModuleRef module)
{
	p->optimise.run(*llvm::unwrap(module), p->modules);
	p->modules.clear();
	p->components.clear();
	p->functions.clear();
	p->loops.clear();
}

int stx__passes_emit(struct stx__passes *p, LLVMModuleRef module, int assembly,
		     stx__passes_put *put, void *ctx)
{
	BackEnd *b = p->back_end(assembly);
	if (!b)
		return -1;
	b->text.clear();
	b->passes.run(*llvm::unwrap(module));
	return put(ctx, b->text.data(), b->text.size());
}
