// link.cc: runs lld::elf::link on memory (lld.h says how).
#include "lld.h"

#include <cstdlib>
#include <cstring>

#include <lld/Common/CommonLinkerContext.h>
#include <lld/Common/Driver.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileOutputBuffer.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

LLD_HAS_DRIVER(elf)

namespace
{

// The link that is running; null between links. One at a time: see lld.h.
struct Running {
	const stx__lld_input *in;
	unsigned nin;
	stx__lld_put *put;
	void *ctx;
};
Running *running;

// lld's output, in memory: the bytes reach the caller when lld commits them.
class MemoryOutput final : public llvm::FileOutputBuffer
{
      public:
	MemoryOutput(llvm::StringRef path, uint8_t *at, size_t n)
	    : FileOutputBuffer(path), at_(at), n_(n)
	{
	}
	~MemoryOutput() override { free(at_); }
	uint8_t *getBufferStart() const override { return at_; }
	uint8_t *getBufferEnd() const override { return at_ + n_; }
	size_t getBufferSize() const override { return n_; }
	llvm::Error commit() override
	{
		if (!running || running->put(running->ctx, at_, n_))
			return llvm::errorCodeToError(
				std::make_error_code(std::errc::not_enough_memory));
		return llvm::Error::success();
	}

      private:
	uint8_t *at_;
	size_t n_;
};

using BufferOr = llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>>;
using OutputOr = llvm::Expected<std::unique_ptr<llvm::FileOutputBuffer>>;

} // namespace

// The linker option --wrap sends lld's calls here. The names are the mangled ones of
// llvm::MemoryBuffer::getFile(Twine const &, bool, bool, bool, std::optional<Align>) and
// llvm::FileOutputBuffer::create(StringRef, size_t, unsigned) with __wrap_ in front.
BufferOr wrap_get_file(const llvm::Twine &path, bool, bool, bool, std::optional<llvm::Align>) asm(
	"__wrap__ZN4llvm12MemoryBuffer7getFileERKNS_5TwineEbbbSt8optionalINS_5AlignEE");
OutputOr wrap_create(llvm::StringRef path, size_t n,
		     unsigned) asm("__wrap__ZN4llvm16FileOutputBuffer6createENS_9StringRefEmj");

BufferOr wrap_get_file(const llvm::Twine &path, bool, bool, bool, std::optional<llvm::Align>)
{
	llvm::SmallString<64> name;
	llvm::StringRef want = path.toStringRef(name);
	for (unsigned i = 0; running && i < running->nin; i++) {
		const stx__lld_input &in = running->in[i];
		if (want != in.path)
			continue;
		llvm::StringRef data(static_cast<const char *>(in.at), in.n);
		return llvm::MemoryBuffer::getMemBuffer(data, in.path, false);
	}
	return std::make_error_code(std::errc::no_such_file_or_directory);
}

OutputOr wrap_create(llvm::StringRef path, size_t n, unsigned)
{
	auto *at = static_cast<uint8_t *>(calloc(n ? n : 1, 1));
	if (!at)
		return llvm::errorCodeToError(std::make_error_code(std::errc::not_enough_memory));
	return std::make_unique<MemoryOutput>(path, at, n);
}

int stx__lld_link(const char *const *argv, int argc, const stx__lld_input *in, unsigned nin,
		  stx__lld_put *put, void *ctx, char *err, size_t cap)
{
	std::string text;
	llvm::raw_string_ostream messages(text);
	Running r = { in, nin, put, ctx };
	running = &r;
	bool ok = lld::elf::link(llvm::ArrayRef<const char *>(argv, argc), messages, messages,
				 false, false);
	lld::CommonLinkerContext::destroy();
	running = nullptr;
	messages.flush();
	if (cap) {
		size_t n = text.size() < cap - 1 ? text.size() : cap - 1;
		memcpy(err, text.data(), n);
		err[n] = 0;
	}
	return ok ? 0 : -1;
}
