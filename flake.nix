# nix build: the program with its pages. nix run . -- show
# The removal of a package on NixOS runs nothing: call linerate unpersist and linerate rollback before.
{
  description = "Get a Linux router to forward at line rate, safely, and prove it";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "i686-linux"
        "armv7l-linux"
        "riscv64-linux"
      ];
      each = nixpkgs.lib.genAttrs systems;
    in
    {
      packages = each (system: {
        default =
          let
            pkgs = nixpkgs.legacyPackages.${system};
            about = (nixpkgs.lib.importTOML ./Cargo.toml).package;
          in
          pkgs.rustPlatform.buildRustPackage {
            pname = about.name;
            inherit (about) version;
            src = self;
            cargoLock.lockFile = ./Cargo.lock;
            LINERATE_BUILT = "${about.version} (commit ${self.shortRev or "unknown"}, features: router, measure, top)";
            # The tests of namespaces and of guests need more than a sandbox gives.
            cargoTestFlags = [ "--lib" ];
            postInstall = ''
              for one in manual bill; do cargo run --offline --example $one target/manual; done
              mv $out/bin/linerate built
              DESTDIR= PREFIX=$out scripts/install.sh built
            '';
            meta = {
              description = about.description;
              license = with nixpkgs.lib.licenses; [
                mit
                asl20
              ];
              platforms = systems;
              mainProgram = "linerate";
            };
          };
      });
    };
}
