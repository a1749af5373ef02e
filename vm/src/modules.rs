//! Which kernel modules a guest needs, and in which order: the closure over `modules.dep` and
//! `modules.softdep`, with the parts of depmod's tables that let the guest's `modprobe` (called by
//! the kernel, too, for nftables expressions and the like) find them.

use std::collections::{BTreeMap, BTreeSet};

/// depmod's tables of one kernel.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// Module name to path under the module directory and the paths it depends on.
    modules: BTreeMap<String, Module>,
    /// `pre:` soft dependencies by module name; names may be aliases.
    soft: BTreeMap<String, Vec<String>>,
    /// `alias PATTERN MODULE`, in file order.
    aliases: Vec<(String, String)>,
    /// What is part of the kernel itself.
    builtin: BTreeSet<String>,
}

#[derive(Debug, Clone)]
struct Module {
    path: String,
    depends: Vec<String>,
}

/// The name of a module by its path: `kernel/net/8021q/8021q.ko.xz` is `8021q`, dashes count as
/// underscores.
#[must_use]
pub fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.split(".ko").next().unwrap_or(file);
    stem.replace('-', "_")
}

impl Tables {
    /// Reads the texts of modules.dep, modules.softdep, modules.alias and modules.builtin.
    #[must_use]
    pub fn parse(dep: &str, softdep: &str, alias: &str, builtin: &str) -> Self {
        let mut tables = Self::default();
        for line in dep.lines() {
            let Some((path, depends)) = line.split_once(':') else { continue };
            let depends = depends.split_whitespace().map(name_of).collect();
            tables.modules.insert(name_of(path), Module { path: path.to_owned(), depends });
        }
        for line in softdep.lines() {
            let mut words = line.split_whitespace();
            let (Some("softdep"), Some(module)) = (words.next(), words.next()) else { continue };
            let before: Vec<String> = words
                .skip_while(|w| *w != "pre:")
                .skip(1)
                .take_while(|w| *w != "post:")
                .map(ToOwned::to_owned)
                .collect();
            tables.soft.insert(module.replace('-', "_"), before);
        }
        for line in alias.lines() {
            let mut words = line.split_whitespace();
            if let (Some("alias"), Some(pattern), Some(module)) =
                (words.next(), words.next(), words.next())
            {
                tables.aliases.push((pattern.to_owned(), module.replace('-', "_")));
            }
        }
        tables.builtin = builtin.lines().map(name_of).collect();
        tables
    }

    /// The modules `wanted` with all they depend on, dependencies first, each once. Names the first
    /// that this kernel has neither as a module nor built in.
    ///
    /// # Errors
    /// The name that is unknown.
    pub fn closure<'w>(
        &self,
        wanted: impl IntoIterator<Item = &'w str>,
    ) -> Result<Vec<String>, String> {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        for name in wanted {
            let name = name.replace('-', "_");
            if !self.modules.contains_key(&name) && !self.builtin.contains(&name) {
                return Err(name);
            }
            self.visit(&name, &mut seen, &mut order);
        }
        Ok(order)
    }

    fn visit(&self, name: &str, seen: &mut BTreeSet<String>, order: &mut Vec<String>) {
        // Marked before its dependencies: a cycle (soft ones exist) ends here.
        if !seen.insert(name.to_owned()) {
            return;
        }
        let Some(module) = self.modules.get(name) else { return };
        for soft in self.soft.get(name).into_iter().flatten() {
            // A soft dependency is a module's name or an alias with several providers (`crc32c`).
            self.visit(&soft.replace('-', "_"), seen, order);
            for (pattern, provider) in &self.aliases {
                if pattern == soft || pattern.strip_prefix("crypto-") == Some(soft) {
                    self.visit(provider, seen, order);
                }
            }
        }
        // depmod lists the nearest dependency first; the farthest has to be there first.
        for dependency in module.depends.iter().rev() {
            self.visit(dependency, seen, order);
        }
        order.push(name.to_owned());
    }

    /// Where a module lies under the module directory, compressed as the package has it.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<&str> {
        self.modules.get(name).map(|m| m.path.as_str())
    }

    /// `modules.dep` and `modules.alias` for a guest that has only `names`, all uncompressed.
    #[must_use]
    pub fn subset(&self, names: &[String]) -> (String, String) {
        let plain = |name: &str| {
            let path = self.path(name).unwrap_or_default();
            path.split_once(".ko").map_or(path.to_owned(), |(stem, _)| format!("{stem}.ko"))
        };
        let mut dep = String::new();
        for name in names {
            let Some(module) = self.modules.get(name) else { continue };
            let depends: String = module.depends.iter().map(|d| format!(" {}", plain(d))).collect();
            dep.push_str(&format!("{}:{depends}\n", plain(name)));
        }
        let mut alias = String::new();
        for (pattern, module) in &self.aliases {
            if names.contains(module) {
                alias.push_str(&format!("alias {pattern} {module}\n"));
            }
        }
        (dep, alias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "\
kernel/net/ipv4/a.ko.xz: kernel/lib/b.ko.xz kernel/lib/c-far.ko.xz
kernel/lib/b.ko.xz: kernel/lib/c-far.ko.xz
kernel/lib/c-far.ko.xz:
kernel/crypto/sum_generic.ko.xz:
kernel/net/other.ko.xz:
";

    fn tables() -> Tables {
        Tables::parse(
            DEP,
            "# comment\nsoftdep c_far pre: sum post: other\n",
            "alias crypto-sum sum_generic\nalias net-pf-9 other\nalias nft-expr-a a\n",
            "kernel/lib/inside.ko\n",
        )
    }

    #[test]
    fn dependencies_come_first_soft_ones_included() {
        assert_eq!(tables().closure(["a"]).unwrap(), ["sum_generic", "c_far", "b", "a"]);
    }

    #[test]
    fn a_built_in_module_needs_no_file_and_an_unknown_one_is_named() {
        assert_eq!(tables().closure(["inside"]).unwrap(), Vec::<String>::new());
        assert_eq!(tables().closure(["a", "absent"]), Err("absent".to_owned()));
    }

    #[test]
    fn the_subset_keeps_the_aliases_by_which_the_kernel_asks() {
        let tables = tables();
        let (dep, alias) = tables.subset(&tables.closure(["a"]).unwrap());
        assert!(
            dep.contains("kernel/net/ipv4/a.ko: kernel/lib/b.ko kernel/lib/c-far.ko\n"),
            "{dep}"
        );
        assert!(!dep.contains(".xz") && !dep.contains("other"), "{dep}");
        assert_eq!(alias, "alias crypto-sum sum_generic\nalias nft-expr-a a\n");
    }

    #[test]
    fn a_cycle_of_soft_dependencies_ends() {
        let tables =
            Tables::parse("k/x.ko:\nk/y.ko:\n", "softdep x pre: y\nsoftdep y pre: x\n", "", "");
        assert_eq!(tables.closure(["x"]).unwrap(), ["y", "x"]);
    }
}
