#include "layout.hpp"

namespace relay {

std::shared_ptr<const Layout> make_layout(const Definition&) { return std::make_shared<Layout>(); }

}  // namespace relay
